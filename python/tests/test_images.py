"""Images: PNG and WebP beside Pillow, ImageFolder beside torchvision, and lists of files."""

import io
import os
import pathlib
import pickle
import struct
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import leat
from samples import JPEG

KNOWN = pathlib.Path(__file__).parents[2] / "tests" / "feeder" / "sources" / "data" / "images.bin"


def known_images() -> Iterator[tuple[str, bytes, Any]]:
    """The images of the C++ tests, which make_images.py beside them writes: name, file, pixels."""
    file = io.BytesIO(KNOWN.read_bytes())

    def number() -> int:
        return int(struct.unpack("<I", file.read(4))[0])

    while start := file.read(4):
        name = file.read(struct.unpack("<I", start)[0]).decode()
        image = file.read(number())
        width, height = number(), number()
        yield name, image, np.frombuffer(file.read(number()), np.uint8).reshape(height, width, 3)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[pathlib.Path, Any]]:
    folder = tmp_path_factory.mktemp("known")
    found = {}
    for name, image, pixels in known_images():
        (folder / name).write_bytes(image)
        found[name] = (folder / name, pixels)
    return found


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """Classes "a", "b" and "c-d", with folders in folders and files that are no images."""
    root = tmp_path / "train"
    for name in (
        "b/2.jpg b/10.jpeg a/z.JPG a/b/x.jpg a/b-c/y.jpg a/b/a/w.jpg c-d/1.jpg a/note.txt stray.jpg b/é.jpg b/jpg"
    ).split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(JPEG)
    return root


def exact(files: Any, **options: Any) -> leat.Files:
    return leat.Files(files, height=11, width=13, fit="exact", **options)


def test_png_and_webp_of_every_kind_have_pillows_pixels(known: dict[str, tuple[pathlib.Path, Any]]) -> None:
    still = {name: of for name, of in known.items() if name != "animation.webp"}
    assert len(still) == 57
    data = exact([path for path, _ in still.values()])
    assert [field.name for field in data.fields] == ["image"]
    for i, (name, (_, pixels)) in enumerate(still.items()):
        assert np.array_equal(data[i]["image"], pixels), name
    with pytest.raises(leat.Error, match="animation.webp: it is an animation"):
        exact(known["animation.webp"][0])[0]


def test_the_known_pixels_are_those_of_the_pillow_that_is_here(known: dict[str, tuple[pathlib.Path, Any]]) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    if not pytest.importorskip("PIL.features").check("webp"):
        pytest.skip("this Pillow has no WebP")
    for name, (path, pixels) in known.items():
        if not name.startswith("gray16"):
            assert np.array_equal(np.asarray(image.open(path).convert("RGB")), pixels), name


@pytest.mark.parametrize(
    ("form", "mode"),
    [("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")]
    + [("WEBP", mode) for mode in ("L", "RGB", "RGBA")],
)
def test_what_pillow_writes_is_read_and_resized_as_pillow_does(tmp_path: pathlib.Path, form: str, mode: str) -> None:
    pil = pytest.importorskip("PIL", reason="needs Pillow")
    if int(pil.__version__.split(".")[0]) < 13:
        pytest.skip(f"Pillow {pil.__version__}; resizes have the results of Pillow 13")
    from PIL import Image

    random = np.random.default_rng(1)
    files, expected = [], []
    for width, height in ((1, 1), (3, 9), (64, 33), (301, 97)):
        noise = random.integers(0, 256, (height, width, 4), np.uint8)
        wide = Image.fromarray(noise[:, :, :2].copy().view("<u2")[:, :, 0])
        image = wide if mode == "I;16" else Image.fromarray(noise).convert(mode)
        files.append(tmp_path / f"{width}.img")
        image.save(files[-1], form)
        if mode == "I;16":  # Pillow would clip
            image = Image.fromarray((np.asarray(wide) >> 8).astype(np.uint8))
        else:
            image = Image.open(files[-1])
        expected.append(np.asarray(image.convert("RGB").resize((30, 20), Image.Resampling.BILINEAR)))
    data = leat.Files(files, height=20, width=30)
    for i, pixels in enumerate(expected):
        assert np.array_equal(data[i]["image"], pixels), files[i]


def test_image_folder_has_torchvisions_classes_numbers_and_order(tree: pathlib.Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets", reason="needs torchvision")
    theirs = datasets.ImageFolder(str(tree))
    ours = leat.ImageFolder(tree, height=16, width=24, fit="exact")
    assert ours.classes == theirs.classes
    assert ours.class_to_idx == theirs.class_to_idx
    assert [(ours.path(i), ours.label(i)) for i in range(len(ours))] == theirs.samples
    for i, (image, label) in enumerate(theirs):
        assert int(ours[i]["label"]) == label
        # Pillow may have another libjpeg.
        assert np.abs(ours[i]["image"].astype(int) - np.asarray(image)).max() <= 2


def test_image_folder_leaves_out_what_is_hidden_and_counts_classes_by_their_names(tree: pathlib.Path) -> None:
    (tree / ".ipynb_checkpoints").mkdir()
    (tree / ".ipynb_checkpoints" / "1.jpg").write_bytes(JPEG)
    (tree / "b" / ".1.jpg").write_bytes(JPEG)
    data = leat.ImageFolder(str(tree))
    assert data.classes == ["a", "b", "c-d"]
    assert data.class_to_idx == {"a": 0, "b": 1, "c-d": 2}
    assert [os.path.relpath(data.path(i), tree) for i in range(len(data))] == [
        "a/z.JPG", "a/b/x.jpg", "a/b-c/y.jpg", "a/b/a/w.jpg", "b/10.jpeg", "b/2.jpg", "b/é.jpg", "c-d/1.jpg",
    ]  # fmt: skip
    assert data.fields == (leat.Field("image", "uint8", (224, 224, 3)), leat.Field("label", "int64"))
    assert (data.label(-1), int(data[-1]["label"]), data.name) == (2, 2, "image folder")
    assert isinstance(data, leat.ImageFiles)
    assert repr(data) == '<leat.ImageFolder "image folder": 8 samples of image uint8 [224, 224, 3], label int64 []>'


def test_each_option_of_image_folder_is_used(tree: pathlib.Path) -> None:
    (tree / "d").mkdir()
    (tree / "a" / "old.bmp").write_bytes(b"BM")
    with pytest.raises(leat.Error, match=r"old\.bmp: images of this format are not read"):
        leat.ImageFolder(tree)
    with pytest.raises(leat.Error, match=r"d: the class has no images.*allow_empty"):
        leat.ImageFolder(tree, extensions=["jpg", "jpeg"])
    data = leat.ImageFolder(
        tree, extensions=".JPEG", allow_empty=True, name="mine", height=8, width=9, planar=True, mirror=1.0
    )
    assert (len(data), data.name, data.classes) == (1, "mine", ["a", "b", "c-d", "d"])
    assert data[0]["image"].shape == (3, 8, 9)
    with pytest.raises(TypeError, match="has no argument extension;"):
        leat.ImageFolder(tree, extension="jpg")  # type: ignore[call-arg]


def test_files_are_in_the_order_of_their_list_with_its_labels(tree: pathlib.Path) -> None:
    paths: list[Any] = [tree / "b" / "2.jpg", str(tree / "a" / "z.JPG"), os.fsencode(tree / "b" / "2.jpg")]
    for labels in ([5, -1, 7], (5, -1, 7), np.array([5, -1, 7])):
        data = leat.Files(paths, labels)
        assert [int(data[i]["label"]) for i in range(3)] == [data.label(i) for i in range(3)] == [5, -1, 7]
    assert data.path(1) == str(tree / "a" / "z.JPG")
    assert len(leat.Files(paths[0])) == 1
    with pytest.raises(ValueError, match="3 paths and 2 labels"):
        leat.Files(paths, [1, 2])
    with pytest.raises(TypeError, match="labels has to be"):
        leat.Files(paths, 3)  # type: ignore[arg-type]
    with pytest.raises(leat.Error, match="gone.jpg: No such file"):
        leat.Files([tree / "gone.jpg"])[0]
    with pytest.raises(ValueError, match="is a folder; give the paths of its images"):
        leat.Files(tree)
    with pytest.raises(leat.Error, match="raise the option max_pixels"):
        leat.Files(paths, max_pixels=1)[0]


def test_images_pickle_and_are_fed(tree: pathlib.Path) -> None:
    folder = leat.ImageFolder(tree, height=16, width=16, fit="random_resized_crop", mirror=0.5)
    files = leat.Files([folder.path(i) for i in range(len(folder))], range(8), height=16, width=16)
    for data in (folder, files):
        again = pickle.loads(pickle.dumps(data))
        assert (len(again), again.digest) == (len(data), data.digest)
        assert again.path(3) == data.path(3)
        seen = []
        for batch in leat.Prefetcher(again, "cpu", batch_size=3, framework="numpy", last_batch="partial"):
            seen += batch["label"].tolist()
        assert sorted(seen) == sorted(data.label(i) for i in range(len(data)))


def tar_of(path: pathlib.Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_any_image_of_a_web_dataset_takes_each_format(
    tmp_path: pathlib.Path, known: dict[str, tuple[pathlib.Path, Any]]
) -> None:
    wanted = ["rgb8.png", "lossy.webp", "palette1.png"]
    tar_of(tmp_path / "a.tar", {name: known[name][0].read_bytes() for name in wanted})
    part = leat.any_image("pixels", height=11, width=13, fit="exact")
    assert part.extensions == ("jpg", "jpeg", "png", "webp")
    data = leat.WebDataset(tmp_path / "a.tar", parts=[pickle.loads(pickle.dumps(part))])
    for i, name in enumerate(wanted):
        assert np.array_equal(data[i]["pixels"], known[name][1])


def test_the_page_on_images_says_how(
    tree: pathlib.Path, known: dict[str, tuple[pathlib.Path, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tree.parent
    monkeypatch.chdir(folder)
    png, webp = (known[name][0].read_bytes() for name in ("rgb8.png", "lossy.webp"))
    (folder / "a.png").write_bytes(png)
    (folder / "b.webp").write_bytes(webp)
    tar_of(folder / "a.tar", {"0.png": png, "0.cls": b"3", "1.webp": webp, "1.cls": b"1"})
    # [images]
    train = leat.ImageFolder("train", fit="random_resized_crop", mirror=0.5)
    some = leat.Files(["a.png", "b.webp"], labels=[3, 1], height=64, width=64)
    shards = leat.WebDataset("*.tar", parts=[leat.any_image("image"), leat.class_label("label")])
    # [/images]
    assert (len(train), len(some), len(shards)) == (8, 2, 2)
    assert [int(shards[i]["label"]) for i in range(2)] == [some.label(i) for i in range(2)] == [3, 1]
    assert train[0]["image"].shape == shards[1]["image"].shape == (224, 224, 3)
