"""metrics.csv: what was written is read again."""

import numpy as np

from purerl.reporting import metrics_csv


def test_log_reads_what_it_wrote(tmp_path):
    path = tmp_path / "metrics.csv"
    values = np.float32([0.1, 1e-30, 16777217.0, np.nan])
    file = metrics_csv.Log(path)
    for update, value in enumerate(values, 1):
        row = {"seed": 0, "update": update, "env_steps": 10 * update, "wall_seconds": 0.5, "loss": value}
        file.write([row, row | {"seed": 1}])
    file.close()
    np.testing.assert_array_equal(metrics_csv.read(path)["loss"].astype(np.float32), np.repeat(values, 2))
    path.write_text(path.read_text() + "0,5,50,0.5")  # cut off in the middle
    again = metrics_csv.Log(path, upto=2)
    again.write([{"seed": 0, "update": 3, "env_steps": 30, "wall_seconds": 1.0, "loss": np.float32(7)}])
    again.close()
    assert metrics_csv.read(path)["update"].tolist() == [1, 1, 2, 2, 3]
    x, y = metrics_csv.by_seed(metrics_csv.read(path), "loss")[0]
    assert x.tolist() == [10, 20, 30]
    assert y[-1] == 7
