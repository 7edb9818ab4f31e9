"""leat.Columns beside the libraries whose tables it reads, value by value. Those that are not
installed are skipped; a table made by hand is always read."""

import contextlib
import gc
import io
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrow_stream import Table

import leat


def rows_of(data: leat.Columns) -> list[dict[str, Any]]:
    return list(data)


def values_of(data: leat.Columns, name: str) -> list[Any]:
    return [row[name].tolist() for row in rows_of(data)]


def texts_of(data: leat.Columns, name: str) -> list[str]:
    return [row[name].tobytes().decode() for row in rows_of(data)]


def by_hand(rows: int = 5) -> Table:
    half = rows // 2
    x = np.arange(rows, dtype=np.int32)
    names = [f"row {i}" * (i % 3) for i in range(rows)]
    return Table([{"x": x[:half], "name": names[:half]}, {"x": x[half:], "name": names[half:]}])


class TestByHand:
    def test_rows_are_the_tables(self) -> None:
        data = leat.Columns(by_hand(), name="mine")
        assert data.name == "mine"
        assert len(data) == 5
        assert data.fields == (leat.Field("x", "int32"), leat.Field("name", "uint8", (10,), variable_length=True))
        assert values_of(data, "x") == [0, 1, 2, 3, 4]
        assert texts_of(data, "name") == ["", "row 1", "row 2row 2", "", "row 4"]

    @pytest.mark.parametrize(
        "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
    )
    def test_numbers_of_each_type(self, dtype: str) -> None:
        x = np.array([1, 200, 3]).astype(dtype)
        data = leat.Columns(Table([{"x": x}]))
        assert data.fields[0].dtype == dtype
        assert values_of(data, "x") == x.tolist()

    def test_a_prefetcher_reads_it(self) -> None:
        data = leat.Columns(by_hand(100))
        x = [
            int(i)
            for batch in leat.Prefetcher(data, "cpu", batch_size=7, last_batch="partial", seed=3)
            for i in np.asarray(batch["x"])
        ]
        assert sorted(x) == list(range(100))

    def test_memory_is_not_copied_and_released_at_the_end(self) -> None:
        table = by_hand()
        data = leat.Columns(table)
        table.chunks[0]["x"][1] = 77
        assert data[1]["x"] == 77
        assert table.released == []
        thread = threading.Thread(target=lambda: data[0])
        thread.start()
        thread.join()
        del data, thread
        gc.collect()
        assert sorted(table.released) == ["array", "array", "schema", "stream"]

    def test_a_release_by_python_code_leaves_the_exception(self) -> None:
        table = by_hand()
        with pytest.raises(KeyError, match="none"):
            leat.Columns(table).categories("none")
        assert table.released[-1] == "stream"

    def test_nulls_are_refused_or_filled(self) -> None:
        table = Table([{"x": np.arange(3), "name": ["a", None, "c"]}])
        with pytest.raises(leat.Error, match='column "name" of columns: row 1 is null; .*fill'):
            leat.Columns(table)
        assert table.released[-1] == "stream"
        data = leat.Columns(table, fill={"name": 0})
        assert texts_of(data, "name") == ["a", "", "c"]

    def test_a_producer_that_fails(self) -> None:
        table = by_hand()
        table.fails_at = 1
        with pytest.raises(leat.Error, match="chunk 1, behind 2 rows: the chunk is gone"):
            leat.Columns(table)
        assert sorted(table.released) == ["array", "schema", "stream"]

    def test_a_stream_is_read_once(self) -> None:
        class Used:
            def __init__(self) -> None:
                self.capsule = by_hand().__arrow_c_stream__()

            def __arrow_c_stream__(self) -> object:
                return self.capsule

        used = Used()
        assert len(leat.Columns(used)) == 5
        with pytest.raises(ValueError, match="used before"):
            leat.Columns(used)

    @pytest.mark.parametrize("table", [None, 3, [1, 2], {"x": [1]}, np.arange(3), leat.Columns, Table])
    def test_other_objects_are_refused(self, table: object) -> None:
        with pytest.raises(TypeError, match="table"):
            leat.Columns(table)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"fill": {"y": 0}}, ValueError, 'no column "y"'),
            ({"fill": {"x": "0"}}, TypeError, "a dict of numbers"),
            ({"fill": {"x": 0.5}}, ValueError, "no int32"),
            ({"fill": 3}, TypeError, "a dict by the names of columns"),
            ({"shapes": {"x": (2,)}}, ValueError, "2 values"),
            ({"shapes": {"x": ("a",)}}, TypeError, "tuples of ints such as"),
            ({"shapes": {"x": 2}}, TypeError, r"shapes has to be .* such as \(2,\), not 2"),
            ({"fill": {"x": 2**64 - 1}}, ValueError, "18446744073709551615, is no int32"),
            ({"fill": {"x": -(2**63) - 1}}, TypeError, r"from -2\*\*63 to .* not -9223372036854775809"),
            ({"images": [leat.class_label("x")]}, TypeError, "any_image"),
            ({"rows": 1}, TypeError, "rows"),
        ],
    )
    def test_options_that_do_not_fit(self, options: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            leat.Columns(by_hand(), **options)


class TestPyarrow:
    pa: Any

    @pytest.fixture(autouse=True)
    def _import(self) -> None:
        self.pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    def test_each_type(self) -> None:
        pa = self.pa
        base = np.arange(12)
        table = pa.table(
            {
                **{
                    f"x{t}": pa.array(base.astype(t))
                    for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
                },
                "bool": pa.array(base % 3 == 0),
                "date": pa.array(base.astype(np.int32)).cast(pa.date32()),
                "time": pa.array(base, pa.time64("us")),
                "stamp": pa.array(base, pa.timestamp("ns", "Europe/Berlin")),
                "duration": pa.array(base, pa.duration("ms")),
                "pair": pa.array([[i, i + 1] for i in base], pa.list_(pa.int16(), 2)),
                "grid": pa.array([[[i, 1], [2, i]] for i in base], pa.list_(pa.list_(pa.float32(), 2), 2)),
                "three": pa.array([b"%03d" % i for i in base], pa.binary(3)),
                "list": pa.array([list(range(i)) for i in base]),
                "large": pa.array([[True] * i for i in base], pa.large_list(pa.bool_())),
                "pairs": pa.array([[[i, i]] * (i % 3) for i in base], pa.list_(pa.list_(pa.int32(), 2))),
                "text": pa.array([f"{i}é" * i for i in base]),
                "view": pa.array(["x" * i * 2 for i in base], pa.string_view()),
                "bytes": pa.array([b"\0" * i for i in base], pa.large_binary()),
            }
        )
        chunked = pa.concat_tables([table.slice(5, 4), table.slice(0, 3), table])
        data = leat.Columns(chunked)
        assert [field.name for field in data.fields] == table.column_names
        for i, row in enumerate(rows_of(data)):
            for name, value in row.items():
                wanted: Any = chunked.column(name)[i]
                if name in ("text", "view", "bytes", "three"):
                    wanted = wanted.as_py()
                    assert value.tobytes() == (wanted.encode() if isinstance(wanted, str) else wanted)
                    continue
                if name in ("date", "time", "stamp", "duration"):
                    wanted = wanted.value
                else:
                    wanted = wanted.as_py()
                assert value.tolist() == wanted, (name, i)

    def test_what_is_nested_in_slices(self) -> None:
        pa = self.pa
        batch = pa.record_batch({"l": pa.array([[1, 2], [], [3, 4, 5], [6], [7]]), "x": pa.array(range(5))}).slice(1, 3)
        data = leat.Columns(pa.Table.from_batches([batch, batch.slice(1)]))
        assert values_of(data, "l") == [[], [3, 4, 5], [6], [3, 4, 5], [6]]
        assert values_of(leat.Columns(batch), "x") == [1, 2, 3]
        assert values_of(leat.Columns(pa.chunked_array([[1, 2], [3]])), "values") == [1, 2, 3]

    def test_dictionaries_are_unified(self) -> None:
        pa = self.pa
        chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["b", "a", "c"])[1:].dictionary_encode()]
        data = leat.Columns(pa.table({"x": pa.chunked_array(chunks)}))
        assert values_of(data, "x") == [0, 1, 1, 2]
        assert data.categories("x") == ["b", "a", "c"]
        with pytest.raises(KeyError):
            data.categories("y")

    def test_nulls(self) -> None:
        pa = self.pa
        table = pa.table({"x": pa.array([1.5, None, 3.0]), "l": pa.array([[1, None], None, [2]])})
        with pytest.raises(leat.Error, match='column "x".*row 1 is null'):
            leat.Columns(table)
        data = leat.Columns(table, fill={"x": float("nan"), "l": -1})
        assert np.isnan(data[1]["x"])
        assert values_of(data, "l") == [[1, -1], [], [2]]
        assert values_of(leat.Columns(table.select(["x"]).slice(2)), "x") == [3.0]

    @pytest.mark.parametrize(
        "type_",
        ["null()", "decimal128(5)", "map_(pa.int8(), pa.int8())", "list_(pa.string())", "struct({'a': pa.int8()})"],
    )
    def test_types_that_are_no_field(self, type_: str) -> None:
        table = self.pa.table({"x": self.pa.array([], eval(f"pa.{type_}", {"pa": self.pa}))})
        with pytest.raises(leat.Error, match='column "x" of columns: .*; '):
            leat.Columns(table)

    def test_readers_that_python_feeds(self) -> None:
        pa = self.pa
        schema = pa.schema({"x": pa.int64()})

        def batches(fails: bool) -> Iterator[Any]:
            yield pa.record_batch({"x": [1, 2]}, schema)
            if fails:
                raise KeyError("mine")
            yield pa.record_batch({"x": [3]}, schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches(fails=False))
        data = leat.Columns(reader)
        assert values_of(data, "x") == [1, 2, 3]
        with pytest.raises(TypeError):
            pickle.dumps(data)
        with pytest.raises(leat.Error, match="behind 2 rows: .*mine"):
            leat.Columns(pa.RecordBatchReader.from_batches(schema, batches(fails=True)))
        other = pa.record_batch({"y": ["a"]})
        with pytest.raises(leat.Error, match="chunk 0, from row 0 on, does not fit"):
            leat.Columns(pa.RecordBatchReader.from_batches(schema, iter([other])))

    def test_a_table_outlives_its_name_and_is_pickled(self) -> None:
        data = leat.Columns(self.pa.table({"x": list(range(1000))}), name="mine")
        gc.collect()
        again = pickle.loads(pickle.dumps(data))
        assert values_of(again, "x") == values_of(data, "x") == list(range(1000))
        assert again.name == "mine"

    def test_a_parquet_file_is_trained_on(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow has no parquet")
        file = tmp_path / "people.parquet"
        parquet.write_table(self.pa.table({"age": [30, None, 50], "name": ["a", "bc", ""]}), file)
        # [columns]
        table = parquet.read_table(file)  # or a frame of polars or pandas, a relation of DuckDB, a datasets.Dataset
        data = leat.Columns(table, fill={"age": -1})  # age: int64; name: uint8, of variable length
        feed = leat.Prefetcher(data, "cpu", batch_size=3, seed=7, pad_to="batch", framework="numpy")
        # [/columns]
        batch = next(iter(feed))
        assert sorted(np.asarray(batch["age"]).tolist()) == [-1, 30, 50]
        assert np.asarray(batch["name"]).shape == (3, 2)

    def test_mapped_files_may_not_shrink(self, tmp_path: Path) -> None:
        pa = self.pa
        file = tmp_path / "table.arrow"
        with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, pa.schema({"x": pa.int64()})) as writer:
            writer.write(pa.record_batch({"x": np.arange(100_000)}))
        data = leat.Columns(pa.ipc.open_file(pa.memory_map(str(file))).read_all())
        assert data[99_999]["x"] == 99_999
        with open(file, "r+b") as cut:
            cut.truncate(8192)
        with pytest.raises(leat.Error, match="row 99999 of columns: .*lost"):
            data.read(99_999)

    def test_images_as_hugging_face_has_them(self) -> None:
        image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
        files = [io.BytesIO(), io.BytesIO()]
        for file, kind in zip(files, ["JPEG", "PNG"], strict=True):
            image.fromarray(np.full((6, 8, 3), 100, np.uint8)).save(file, kind)
        table = self.pa.table({"image": [{"bytes": file.getvalue(), "path": None} for file in files]})
        data = leat.Columns(table, images=[leat.any_image("image", height=6, width=8, fit="exact")])
        for row, file in enumerate(files):
            assert np.array_equal(data[row]["image"], np.asarray(image.open(file).convert("RGB")))


def test_polars() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = pl.DataFrame(
        {
            "x": [1, 2, 3],
            "text": ["a", "more than twelve bytes", ""],
            "l": [[1], [], [2, 3]],
            "flag": [True, False, True],
        }
    ).with_columns(
        kind=pl.Series(["u", "v", "u"], dtype=pl.Categorical),
        pair=pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int32, 2)),
    )
    data = leat.Columns(pl.concat([frame, frame.slice(1)], rechunk=False))
    assert values_of(data, "x") == [1, 2, 3, 2, 3]
    assert texts_of(data, "text") == ["a", "more than twelve bytes", "", "more than twelve bytes", ""]
    assert values_of(data, "l") == [[1], [], [2, 3], [], [2, 3]]
    assert values_of(data, "flag") == [1, 0, 1, 0, 1]
    assert values_of(data, "pair")[3] == [3, 4]
    assert [data.categories("kind")[code] for code in values_of(data, "kind")] == ["u", "v", "u", "v", "u"]
    assert values_of(leat.Columns(frame["x"]), "x") == [1, 2, 3]


def test_pandas() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pandas needs pyarrow for __arrow_c_stream__")
    frame = pd.DataFrame(
        {
            "x": [1.5, 2.5],
            "kind": pd.Categorical(["b", "a"]),
            "text": ["p", "qq"],
            "when": pd.to_datetime(["1970-01-02", "1970-01-03"]).as_unit("ns"),
        }
    )
    data = leat.Columns(frame)
    assert values_of(data, "x") == [1.5, 2.5]
    assert [data.categories("kind")[code] for code in values_of(data, "kind")] == ["b", "a"]
    assert texts_of(data, "text") == ["p", "qq"]
    assert values_of(data, "when") == [86_400 * 10**9, 2 * 86_400 * 10**9]


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    relation = duckdb.sql("select range as x, range::varchar || ' as text' as text from range(5000)")
    data = leat.Columns(relation)
    assert values_of(data, "x") == list(range(5000))
    assert texts_of(data, "text")[4999] == "4999 as text"


class TestHuggingFace:
    datasets: Any

    @pytest.fixture(autouse=True)
    def _import(self) -> None:
        self.datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Any:
        made = self.datasets.Dataset.from_dict({"x": list(range(100)), "label": [f"l{i}" for i in range(100)]})
        with contextlib.redirect_stderr(io.StringIO()):
            made.save_to_disk(tmp_path / "saved")
        return self.datasets.load_from_disk(tmp_path / "saved")

    def test_its_order_is_taken(self, dataset: Any) -> None:
        for one in (
            dataset,
            dataset.select([5, 3, 99]),
            dataset.shuffle(seed=1),
            dataset.train_test_split(0.2, seed=2)["test"],
            dataset.select(range(7, 20)),
        ):
            data = leat.Columns(one)
            assert values_of(data, "x") == one["x"][:]
            assert texts_of(data, "label") == one["label"][:]

    def test_columns_of_its_format(self, dataset: Any) -> None:
        data = leat.Columns(dataset.with_format("numpy", columns=["x"]))
        assert [field.name for field in data.fields] == ["x"]

    def test_a_shuffled_dataset_is_pickled_with_its_order(self, dataset: Any) -> None:
        data = leat.Columns(dataset.shuffle(seed=1))
        again = pickle.loads(pickle.dumps(data))
        del dataset
        gc.collect()
        assert values_of(again, "x") == values_of(data, "x")

    def test_arrays_need_their_shape(self) -> None:
        features = self.datasets.Features({"a": self.datasets.Array2D((2, 3), "float32")})
        made = self.datasets.Dataset.from_dict(
            {"a": [np.arange(6).reshape(2, 3) + i for i in range(4)]}, features=features
        )
        with pytest.raises(leat.Error, match="shapes"):
            leat.Columns(made)
        data = leat.Columns(made, shapes={"a": (2, 3)})
        assert values_of(data, "a") == [(np.arange(6.0).reshape(2, 3) + i).tolist() for i in range(4)]

    def test_splits_are_to_be_chosen(self, dataset: Any) -> None:
        with pytest.raises(TypeError, match="choose one of its splits"):
            leat.Columns(dataset.train_test_split(0.5))
