"""Words without which no note can meet a query: what a search by eye would look for first. Pure."""

from server.query.tree import And, Node, Or, Text


def needles(node: Node | None) -> tuple[str, ...]:
    """Words of which every note that meets the query has at least one; none when nobody can tell.

    Of several ways to choose them, the one whose shortest word is the longest: long words are rare.
    """
    match node:
        case Text(words=words):
            return tuple(sorted(words.split(), key=len)[-1:])
        case And(nodes=nodes):
            return max(map(needles, nodes), key=_rarity)
        case Or(nodes=nodes):
            each = [needles(one) for one in nodes]
            return tuple(word for words in each for word in words) if all(each) else ()
        case _:
            return ()


def _rarity(words: tuple[str, ...]) -> int:
    return min(map(len, words), default=0)
