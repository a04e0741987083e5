"""Mutated inputs: valid bytes with a few plausible faults."""

from random import Random

# Counts and lengths that cause overflows, in the sizes and encodings of the formats.
NUMBERS = [
    *(
        value.to_bytes(size, "big")
        for size in (1, 2, 4, 8)
        for value in (0, 1, (1 << 8 * size) - 1)
    ),
    *((1 << 8 * size - 1).to_bytes(size, "big") for size in (1, 2, 4, 8)),
    *(((1 << 8 * size - 1) - 1).to_bytes(size, "big") for size in (1, 2, 4, 8)),
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff" * 9 + b"\x01",
]


def mutated(random: Random, inputs: list[bytes]) -> bytes:
    """Return one of the inputs with up to four faults."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        size = min(random.choice([1, 1, 2, 4, 8, 16, 64]), len(data) - at)
        match random.randrange(7):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 2 if at < len(data):
                data[at] = random.randrange(256)
            case 3:
                number = random.choice(NUMBERS)
                data[at : at + len(number)] = number
            case 4:
                del data[at : at + size]
            case 5:
                data[at:at] = data[at : at + size]
            case 6:
                other = random.choice(inputs)
                begin = random.randint(0, len(other))
                data[at : at + size] = other[begin : begin + size]
    return bytes(data)


QUICK_SIZE_MAX = 2048
SIZES = (1, 1, 2, 4, 8, 16, 64)


def quickly_mutated(random: Random, inputs: list[bytes]) -> bytes:
    """Return one of the inputs with up to four faults of the same kinds, in a few microseconds."""
    number = random.random
    data = bytearray(inputs[int(number() * len(inputs))][:QUICK_SIZE_MAX])
    for _ in range(1 + int(number() * 4)):
        size = len(data)
        at = int(number() * (size + 1))
        kind = int(number() * 8)
        if kind < 3:
            if at < size:
                data[at] = data[at] ^ 1 << int(number() * 8) if kind else int(number() * 256)
        elif kind == 3:
            wanted = NUMBERS[int(number() * len(NUMBERS))]
            data[at : at + len(wanted)] = wanted
        else:
            length = SIZES[int(number() * len(SIZES))]
            if kind == 4:
                del data[at : at + length]
            elif kind == 5:
                data[at:at] = data[at : at + length]
            else:
                other = inputs[int(number() * len(inputs))]
                begin = int(number() * (len(other) + 1))
                data[at : at + (length if kind == 6 else 0)] = other[begin : begin + length]
    return bytes(data)
