"""Modules of operators that are less common, each with a sample: OPERATORS maps a name to a function
that returns the arguments of hanse.export, as zoo.ZOO does."""
import torch
import zoo
from torch import nn

F = nn.functional


class By(nn.Module):
    """A dense layer [12, 6], a function of the module and the samples, a dense layer [6, 4]. `parts`
    are further modules, parameters and buffers."""

    def __init__(self, function, **parts):
        super().__init__()
        self.first, self.last, self.function = nn.Linear(12, 6), nn.Linear(6, 4), function
        for name, part in parts.items():
            if isinstance(part, (nn.Module, nn.Parameter)):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x):
        return self.last(self.function(self, x))


def distances(m, x):
    h = m.first(x)
    return torch.cat([torch.cdist(h, m.centres), torch.cdist(h, m.centres, p=1.0)], 1)


def bags(m, x):
    return m.mean(x) + m.sum(x) + m.most(x) + m.padded(x) + m.weighted(
        x, per_sample_weights=(x % 5).float())


def windows(m, x):
    h = m.first(x)
    return h.unfold(1, 4, 2).sum(1).repeat(1, 2)[:, :6] * h.unfold(1, 3, 1).flatten(1)[:, 3:9]


def grids(m, x):
    """Images 3 x 4 at places that the samples choose."""
    images, transforms = x.view(-1, 1, 3, 4), m.first(x).view(-1, 2, 3)
    found = []
    for mode, padding, corners in (("bilinear", "zeros", False), ("bicubic", "border", True),
                                   ("bilinear", "reflection", True), ("nearest", "zeros", False)):
        grid = F.affine_grid(transforms, list(images.shape), align_corners=corners)
        found.append(F.grid_sample(images, grid, mode, padding, align_corners=corners))
    volumes = F.grid_sample(m.first(x).view(-1, 1, 1, 2, 3), x.view(-1, 2, 2, 1, 3).tanh(),
                            align_corners=False)
    return sum(found).flatten(1)[:, :6] + volumes.flatten(1).repeat(1, 2)[:, :6]


def orders(m, x):
    """Of values that differ: which of equal ones is taken, a version of torch decides."""
    h = m.first(x).view(-1, 2, 3)
    middle = [h.median(2)[0], h.nanmedian(2)[0], h.kthvalue(2, 2)[0]]
    return torch.cat(middle, 1) + h.cummax(2)[0].flatten(1) + h.cummin(1)[0].flatten(1)


def bins(m, x):
    places = torch.bucketize(x, m.edges, right=True) + torch.searchsorted(m.edges, x.contiguous())
    return m.first(x) + m.words(places).mean(1)


def one_hot(m, x):
    return m.first(F.one_hot(x % 12, 12).float().mean(1))


def masks(m, x):
    h = m.first(x)
    h[:, ~m.chosen] = 0.5
    even = torch.arange(6) % 2 == 0
    return torch.cat([h[:, m.chosen], h[:, even]], 1)[:, :6]


def assigned(m, x):
    h = m.first(x)
    h[:, 1:3] = h[:, 3:5] * 2
    v = h.view(-1, 2, 3) * 1.5
    v[:, 0, ::2] = 1.0
    v[:, 1] = v[:, 0].clone() * h[:, 3:]
    v.transpose(1, 2)[:, 1:] += 0.25
    return v.flatten(1)


def losses(m, x):
    h, y = m.first(x), x[:, :6].sigmoid()
    kept = [F.binary_cross_entropy_with_logits(h, y, reduction="none"),
            F.binary_cross_entropy(h.sigmoid(), y, reduction="none"),
            F.smooth_l1_loss(h, y, reduction="none"), F.huber_loss(h, y, reduction="none"),
            F.mse_loss(h, y, reduction="none"), F.l1_loss(h, y, reduction="none"),
            F.soft_margin_loss(h, y, reduction="none"),
            F.kl_div(h.log_softmax(1), y.softmax(1), reduction="none"),
            F.cross_entropy(h, y.argmax(1), reduction="none").unsqueeze(1),
            F.cosine_similarity(h, y).unsqueeze(1)]
    return sum(kept) + F.binary_cross_entropy_with_logits(h, y) + F.smooth_l1_loss(h, y)


def functions(m, x):
    h = m.first(x)
    turned = h.view(-1, 2, 3).rot90(1, [1, 2]).flatten(1)
    crossed = torch.linalg.cross(h.view(-1, 2, 3), x[:, :6].reshape(-1, 2, 3)).flatten(1)
    return (torch.lgamma(h.exp() + 1) + torch.digamma(h.exp() + 1) + torch.sinc(h) +
            torch.erfinv(h.tanh() * 0.9) + torch.renorm(h, 2, 1, 1.0) + turned + crossed)


def resized(m, x):
    image = m.first(x).view(-1, 1, 2, 3)
    return sum(F.interpolate(image, (3, 2), mode=mode, antialias=True).flatten(1)
               for mode in ("bilinear", "bicubic"))


def padded(m, x):
    volumes = m.first(x).view(-1, 1, 1, 2, 3)
    return sum(F.pad(volumes, (1, 1, 1, 1, 0, 0), mode=mode).flatten(1)[:, 3:9]
               for mode in ("replicate", "reflect"))


def words(**more):
    return nn.EmbeddingBag(20, 6, **more)


def by(function, sample=None, **parts):
    return lambda: (By(function, **{name: part() for name, part in parts.items()}),
                    zoo.table(12) if sample is None else sample, {})


TOKENS = zoo.tokens(12, 20)
OPERATORS = {
    "cdist": by(distances, centres=lambda: nn.Parameter(torch.randn(3, 6))),
    "embedding-bag": by(bags, TOKENS, mean=words, sum=lambda: words(mode="sum", padding_idx=3),
                        most=lambda: words(mode="max"), weighted=lambda: words(mode="sum"),
                        padded=lambda: words(padding_idx=-1)),
    "bilinear": by(lambda m, x: m.pairs(x[:, :6], m.first(x)), pairs=lambda: nn.Bilinear(6, 6, 6)),
    "unfold": by(windows),
    "grid-sample": by(grids),
    "median": by(orders),
    "bucketize": by(bins, edges=lambda: torch.tensor([-0.6, -0.1, 0.3, 0.8]),
                    words=lambda: nn.Embedding(9, 6)),
    "prelu": by(lambda m, x: m.each(m.one(m.first(x)) - 0.1), one=nn.PReLU,
                each=lambda: nn.PReLU(6)),
    "one-hot": by(one_hot, TOKENS),
    "masks": by(masks, chosen=lambda: torch.tensor([1, 0, 1, 1, 0, 0]).bool()),
    "assigned": by(assigned),
    "losses": by(losses),
    "functions": by(functions),
    "antialias": by(resized),
    "pads": by(padded),
    "sparse": by(lambda m, x: F.rrelu(m.words(x).mean(1), training=False), TOKENS,
                 words=lambda: nn.Embedding(20, 6, sparse=True)),
}
