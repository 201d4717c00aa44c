# More columns of evaluations.csv: how far the clients are apart.
import numpy as np


class Metric:
    def __call__(self, clients):
        quartiles = np.percentile(clients.loss, [25, 50, 75])
        return {"loss_median": quartiles[1], "loss_quartiles": quartiles[2] - quartiles[0],
                "clients_above_half": np.mean(clients.accuracy > 0.5)}
