"""Writes images.bin, the images of the tests: PNG of every kind, and WebP, each with the pixels of Pillow's
convert("RGB"). Run it with Pillow 13: python3 make_images.py

A record: for each of name, image, pixels its length as a little-endian uint32, and its bytes; before the pixels, width and
height. Gray of 16 bits is the exception: there the pixels are value >> 8, where Pillow clips to 255."""

import io
import pathlib
import random
import struct
import sys
import zlib

import numpy
from PIL import Image

WIDTH, HEIGHT = 13, 11
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
NAMES = {GRAY: "gray", RGB: "rgb", PALETTE: "palette", GRAY_ALPHA: "gray_alpha", RGBA: "rgba"}
# Each pass of Adam7: first column and row, and the steps.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
COLORS = {1: 2, 2: 4, 4: 13, 8: 200}  # of a palette; with 4 and 8 bits, some indices lie beyond it


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed(row, depth):
    """A row of samples as bytes."""
    if depth == 16:
        return b"".join(struct.pack(">H", sample) for sample in row)
    bits = "".join(f"{sample:0{depth}b}" for sample in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at:at + 8], 2) for at in range(0, len(bits), 8))


def filtered(rows, step, choice):
    """Rows of bytes with the five filters in turn."""
    before, out = bytes(len(rows[0])) if rows else b"", b""
    for row in rows:
        kind = choice.randrange(5)
        line = bytearray()
        for i, byte in enumerate(row):
            left, up = row[i - step] if i >= step else 0, before[i]
            corner = before[i - step] if i >= step else 0
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda one: abs(guess - one))
            line.append((byte - (0, left, up, (left + up) // 2, paeth)[kind]) % 256)
        out += bytes([kind]) + line
        before = row
    return out


def png(color, depth, transparent, interlaced, choice):
    channels, step = CHANNELS[color], max(1, CHANNELS[color] * depth // 8)
    colors = COLORS.get(depth) if color == PALETTE else None
    most = (colors + (2 if depth == 8 else 0) if colors else 1 << depth) - 1
    samples = [[[choice.randint(0, most) for _ in range(channels)] for _ in range(WIDTH)] for _ in range(HEIGHT)]

    def lines(rows):
        return [packed([sample for pixel in row for sample in pixel], depth) for row in rows if row]

    data = b""
    for x, y, right, down in PASSES if interlaced else ((0, 0, 1, 1),):
        data += filtered(lines([row[x::right] for row in samples[y::down]]), step, choice)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, color, 0, 0, interlaced))
    out += chunk(b"gAMA", struct.pack(">I", 22000)) + chunk(b"tEXt", b"Comment\0of the tests")
    if colors:
        out += chunk(b"PLTE", choice.randbytes(3 * colors))
    if transparent:
        first = samples[0][0]  # so that a pixel has the transparent color
        out += chunk(b"tRNS", choice.randbytes(colors) if colors else b"".join(struct.pack(">H", one) for one in first))
    squeezed = zlib.compress(data, 9)
    half = len(squeezed) // 2
    return out + chunk(b"IDAT", squeezed[:half]) + chunk(b"IDAT", squeezed[half:]) + chunk(b"IEND", b""), samples


def pngs(choice):
    for color, depths in ((GRAY, (1, 2, 4, 8, 16)), (PALETTE, (1, 2, 4, 8)), (RGB, (8, 16)), (GRAY_ALPHA, (8, 16)), (RGBA, (8, 16))):
        for depth in depths:
            for transparent in (False, True) if color in (GRAY, PALETTE, RGB) else (False,):
                for interlaced in (False, True):
                    name = f"{NAMES[color]}{depth}" + "_transparent" * transparent + "_interlaced" * interlaced + ".png"
                    image, samples = png(color, depth, transparent, interlaced, choice)
                    pixels = pixels_of(image)
                    if color == GRAY and depth == 16:
                        pixels = b"".join(bytes([pixel[0] >> 8]) * 3 for row in samples for pixel in row)
                    yield name, image, pixels


def webps(choice):
    smooth = numpy.add.outer(numpy.arange(HEIGHT) * 9, numpy.arange(WIDTH) * 7)
    noise = numpy.array([[[choice.randrange(60) for _ in range(4)] for _ in range(WIDTH)] for _ in range(HEIGHT)])
    rgba = (smooth[:, :, None] + noise).clip(0, 255).astype(numpy.uint8)
    for name, image, options in (("lossy", rgba[:, :, :3], {}), ("lossless", rgba[:, :, :3], {"lossless": True}),
                                 ("lossy_alpha", rgba, {}), ("lossless_alpha", rgba, {"lossless": True}),
                                 ("exact_alpha", rgba, {"lossless": True, "exact": True})):
        out = io.BytesIO()
        Image.fromarray(image).save(out, "WEBP", quality=85, **options)
        yield f"{name}.webp", out.getvalue(), pixels_of(out.getvalue())
    out = io.BytesIO()
    frames = [Image.fromarray(rgba[:, :, :3] ^ flip) for flip in (0, 255)]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    yield "animation.webp", out.getvalue(), pixels_of(out.getvalue())  # of its first frame


def pixels_of(image):
    return Image.open(io.BytesIO(image)).convert("RGB").tobytes()


def main():
    choice = random.Random(44)
    with open(pathlib.Path(__file__).with_name("images.bin"), "wb") as file:
        for name, image, pixels in (*pngs(choice), *webps(choice)):
            for part in (name.encode(), image):
                file.write(struct.pack("<I", len(part)) + part)
            file.write(struct.pack("<III", WIDTH, HEIGHT, len(pixels)) + pixels)
        print(file.tell(), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
