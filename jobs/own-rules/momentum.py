# Heavy-ball momentum on the server: what server.optimizer = momentum does.
import numpy as np


class Optimizer:
    def __init__(self, clients, args):
        self.beta = np.float32(args.get("beta", 0.9))
        self.velocity = np.float32(0)

    def step(self, theta, update):
        self.velocity = self.beta * self.velocity + update
        return theta + self.velocity

    def state(self):
        return {"velocity": self.velocity}

    def load(self, state):
        self.velocity = state["velocity"]
