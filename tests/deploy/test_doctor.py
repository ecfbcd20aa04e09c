"""What doctor says of the way through the real Caddy, with the Caddyfile that ships."""

import pytest

from tests.deploy.caddy import Caddy
from tests.real.houses import TOKEN, House
from tests.real.servers import Server


@pytest.mark.requirement("ops.doctor")
def test_the_way_through_caddy(house: House) -> None:
    folder = house.home / "caddy"
    folder.mkdir()
    environ = {"AUTH_TOKEN": TOKEN}
    with Server(house.vault, house.state, AUTH_TOKEN=TOKEN) as server:
        environ |= {"PORT": str(server.port)}
        with Caddy(folder, f"127.0.0.1:{server.port}") as caddy:
            environ |= {"PUBLIC_URL": caddy.url}
            house.assert_finds("proxy", "warn", "does not trust", "root certificate", **environ)
            environ |= {"SSL_CERT_FILE": str(folder / "caddy/pki/authorities/local/root.crt")}
            found = house.found(**environ)
            assert found["proxy"]["verdict"] == "ok", found["proxy"]
            server.stop()
            # Its server is gone, Caddy isn't.
            house.assert_finds("proxy", "fail", "status 502", "Have the proxy pass", **environ)
        house.assert_finds("proxy", "fail", "Nothing answers", "systemctl start caddy", **environ)
