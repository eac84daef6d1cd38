"""Tables of threads and of k-means beside fits."""

from benchmarks.core_tables import kmeans_table, threads_table

MACHINE = {"cores": 16, "cpu": "a processor", "system": "Linux"}


def timed(threads, seconds, product):
    figures = {"threads": threads, "seconds": seconds, "product_seconds": product}
    return {"data": "million", "method": "Coterie, default", "machine": MACHINE, "code": {"source": "x"}, **figures}


def test_threads_stand_side_by_side_and_the_last_measurement_counts():
    table = threads_table([timed(2, 9.0, 4.0), timed(1, 12.0, 6.0), timed(2, 7.04, 3.0)])
    assert table.header == ("rows", "fit", "1 thread", "2 threads")
    assert table.rows == (("1,000,000 x (256 + 128 + 64)", "Coterie, default", "12.0 (6.0)", "7.0 (3.0)"),)


def test_medians_stand_beside_k_means_where_it_was_run():
    shape = {"n_rows": 2000, "n_clusters": 10, "peak_mb": 1234.5, "code": {"source": "x"}}
    both = {"data": "uci", "seconds": [1, 9, 2], "kmeans_seconds": [4, 4, 1], "ratio": 0.5, "NMI": [0.9, 0.8]}
    alone = {"data": "thousand", "seconds": [71.66], "NMI": [0.97]}
    table = kmeans_table([{**shape, **both, "kmeans_NMI": [0.5, 0.6]}, {**shape, **alone}])
    assert table.rows[0] == ("UCI", "2,000", "10", "2.0", "4.0", "0.5", "0.850 (0.550)", "1,234")
    assert table.rows[1][3:] == ("71.7", "-", "-", "0.970", "1,234")
