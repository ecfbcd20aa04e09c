"""The files of deploy/clients, used as their clients use them."""
