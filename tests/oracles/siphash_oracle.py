"""SipHash with 128 bits in plain Python, by its authors' reference, for any number of rounds."""

MASK = (1 << 64) - 1


def siphash128(secret: bytes, content: bytes, rounds: int, last_rounds: int) -> bytes:
    """Return the hash: `rounds` per word of 8 bytes and `last_rounds` at the end."""
    k0, k1 = (int.from_bytes(secret[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261]
    v.append(k1 ^ 0x7465646279746573)
    v[1] ^= 0xEE
    padded = content + bytes(7 - len(content) % 8) + bytes([len(content) % 256])
    for place in range(0, len(padded), 8):
        word = int.from_bytes(padded[place : place + 8], "little")
        v[3] ^= word
        _stir(v, rounds)
        v[0] ^= word
    v[2] ^= 0xEE
    _stir(v, last_rounds)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    _stir(v, last_rounds)
    high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


def _stir(v: list[int], rounds: int) -> None:
    for _ in range(rounds):
        v[0] = (v[0] + v[1]) & MASK
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK
