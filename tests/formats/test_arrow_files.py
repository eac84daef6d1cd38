"""Parquet: what its footer says."""

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

from coterie.formats.parquet_footer import null_counts, read_footer


def test_missing_values_are_counted_as_arrow_does(tmp_path):
    path = tmp_path / "x.parquet"
    gaps = {f"c{i}": [None if j % 7 < i % 3 else j for j in range(50)] for i in range(40)}
    table = pa.table({**gaps, "text": ["a", None] * 25, "lists": [[1, None], None] * 25, "größe": list(range(50))})
    for options in ({"row_group_size": 7}, {"use_dictionary": False}, {"version": "1.0"}):
        pa.parquet.write_table(table, path, **options)
        found = null_counts(read_footer(path))
        about = pa.parquet.read_metadata(path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        for i, column in enumerate(found):
            assert about.schema.column(i).path == column
            assert found[column] == sum(group.column(i).statistics.null_count for group in groups)
    pa.parquet.write_table(table, path, write_statistics=False)
    assert set(null_counts(read_footer(path)).values()) == {None}
