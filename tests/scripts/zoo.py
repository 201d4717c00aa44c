"""Modules that people train, each with a sample: own ones, and those of torchvision, timm and
transformers in small. ZOO and RECIPES map a name to a function that returns the arguments of
hanse.export: (module, sample, keywords)."""
import torch
from torch import nn

F = nn.functional


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2).flatten(1)
        return self.f3(F.relu(self.f2(F.relu(self.f1(x)))))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.rnn = kind(16, 32, num_layers=2, dropout=0.2, batch_first=True)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.rnn(self.embedding(x))[0][:, -1])


class Encoder(nn.Module):
    """Attention of torch.nn, and an output for each position, with a causal mask."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.positions = nn.Parameter(torch.randn(12, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = nn.Parameter(self.embedding.weight.detach())
        self.embedding.weight = self.head.weight
        self.register_buffer("hidden", torch.ones(12, 12).triu(1).bool(), persistent=False)

    def forward(self, x):
        x = self.embedding(x) + self.positions
        return self.head(self.layers(x, mask=self.hidden))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.d1, self.d2, self.mid = block(1, 8), block(8, 16), block(16, 32)
        self.u2, self.c2 = nn.ConvTranspose2d(32, 16, 2, 2), block(32, 16)
        self.u1, self.c1 = nn.ConvTranspose2d(16, 8, 2, 2), block(16, 8)
        self.out = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        y = self.c2(torch.cat([self.u2(self.mid(F.max_pool2d(b, 2))), b], 1))
        return self.out(self.c1(torch.cat([self.u1(y), a], 1)))


class Gcn(nn.Module):
    """Features [8, 4] of nodes and their adjacency [8, 8]."""

    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.fc = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x, a):
        a = a + torch.eye(8)
        d = a.sum(2).rsqrt()
        a = d.unsqueeze(2) * a * d.unsqueeze(1)
        x = F.relu(torch.bmm(a, self.l1(x)))
        return self.fc(F.relu(torch.bmm(a, self.l2(x))).mean(1))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 4, 5), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten())
        self.tab, self.fc = nn.Linear(6, 8), nn.Linear(4 * 36 + 8, 10)

    def forward(self, image, table):
        return self.fc(torch.cat([self.cnn(image), F.relu(self.tab(table))], 1))


class Recommender(nn.Module):
    """A user's and an item's number."""

    def __init__(self):
        super().__init__()
        self.u, self.i = nn.Embedding(30, 8), nn.Embedding(40, 8)
        self.fc = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, z):
        return self.fc(torch.cat([self.u(z[:, 0]), self.i(z[:, 1])], 1))[:, 0]


class Returns(nn.Module):
    """A tuple, or a dictionary."""

    def __init__(self, kind):
        super().__init__()
        self.fc, self.kind = nn.Linear(20, 10), kind

    def forward(self, x):
        y = self.fc(x)
        return (y, x) if self.kind is tuple else {"hidden": x, "logits": y}


class Padded(nn.Module):
    """Tokens and a mask of those that count, to attention whose rows may be masked whole."""

    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(50, 16), nn.Linear(16, 10)
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        x = self.attention(x, x, x, key_padding_mask=mask == 0, need_weights=False)[0]
        return self.fc(x.nan_to_num().mean(1))


class StochasticDepth(nn.Module):
    """Blocks that training leaves out for some samples, by masks of one number a sample."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Dropout(0.2))
                                    for _ in range(3))
        self.fc = nn.Linear(20, 10)

    def forward(self, x):
        for block in self.blocks:
            y = block(x)
            if self.training:
                y = y * (0.75 + torch.rand(x.shape[0], 1)).floor() / 0.75
            x = x + y
        return self.fc(x)


def mlp(*layers):
    return nn.Sequential(nn.Linear(20, 64), *layers, nn.ReLU(), nn.Linear(64, 10))


def frozen():
    module = mlp(nn.BatchNorm1d(64))
    module[0].requires_grad_(False)
    return module


def tokens(length, vocabulary=50):
    return torch.arange(length).mul(7).remainder(vocabulary - 1) + 1


def picture(*shape):
    return torch.linspace(0, 1, torch.Size(shape).numel()).sin().abs().reshape(shape)


def table(length=20):
    return torch.linspace(-1, 1, length).mul(7).cos()


ZOO = {
    "lenet": lambda: (Lenet(), picture(1, 28, 28), {}),
    "mlp-batch-norm": lambda: (mlp(nn.BatchNorm1d(64)), table(), {}),
    "mlp-dropout": lambda: (mlp(nn.Dropout(0.5)), table(), {}),
    "mlp-alpha-dropout": lambda: (mlp(nn.AlphaDropout(0.2)), table(), {}),
    "mlp-stochastic-depth": lambda: (StochasticDepth(), table(), {}),
    "mlp-frozen": lambda: (frozen(), table(), {}),
    "cnn": lambda: (nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.GroupNorm(2, 16), nn.SiLU(), nn.Dropout2d(0.2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)), picture(3, 16, 16), {}),
    "cnn-1d": lambda: (nn.Sequential(
        nn.Conv1d(2, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4),
        nn.Conv1d(16, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 5)),
        picture(2, 128), {}),
    "cnn-3d": lambda: (nn.Sequential(
        nn.Conv3d(1, 4, 3), nn.BatchNorm3d(4), nn.ELU(), nn.MaxPool3d(2), nn.Flatten(),
        nn.Linear(4 * 27, 3)), picture(1, 8, 8, 8), {}),
    "lstm": lambda: (Recurrent(nn.LSTM), tokens(16), {}),
    "gru": lambda: (Recurrent(nn.GRU), tokens(16), {}),
    "rnn": lambda: (Recurrent(nn.RNN), tokens(16), {}),
    "encoder": lambda: (Encoder(), tokens(12, 30), {}),
    "padded": lambda: (Padded(), (tokens(10), torch.tensor([1] * 6 + [0] * 4)), {}),
    "unet": lambda: (Unet(), picture(1, 16, 16), {}),
    "gcn": lambda: (Gcn(), (picture(8, 4), torch.eye(8).roll(1, 0)), {}),
    "two-inputs": lambda: (TwoInputs(), (picture(1, 28, 28), table(6)), {}),
    "two-inputs-named": lambda: (TwoInputs(), {"table": table(6), "image": picture(1, 28, 28)},
                                 {}),
    "recommender": lambda: (Recommender(), torch.tensor([29, 39]), {}),
    "regression": lambda: (nn.Sequential(nn.Linear(13, 32), nn.Softplus(), nn.Linear(32, 1)),
                           table(13), {}),
    "autoencoder": lambda: (nn.Sequential(nn.Linear(20, 4), nn.Tanh(), nn.Linear(4, 20)), table(),
                            {}),
    "returns-tuple": lambda: (Returns(tuple), table(), {}),
    "returns-dictionary": lambda: (Returns(dict), table(), {}),
    "spectral-norm": lambda: (nn.Sequential(nn.utils.spectral_norm(nn.Linear(20, 16)), nn.GELU(),
                                            nn.Linear(16, 10)), table(), {}),
    "weight-norm": lambda: (nn.Sequential(nn.utils.weight_norm(nn.Linear(20, 16)), nn.Mish(),
                                          nn.Linear(16, 10)), table(), {}),
}


def vision(name, **more):
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10, **more)


def group_norm(channels):
    return nn.GroupNorm(min(32, channels // 2), channels)


def image_model(name, **more):
    import timm

    if not timm.is_model(name):
        raise ImportError(f"timm {timm.__version__} has no {name}")
    return timm.create_model(name, num_classes=10, **more)


def language_model(kind, **config):
    """A model of transformers from its configuration, small."""
    import transformers

    if not hasattr(transformers, kind):
        raise ImportError(f"transformers {transformers.__version__} has no {kind}")
    made = getattr(transformers, f"{kind.partition('For')[0].removesuffix('LMHeadModel')}Config")
    return getattr(transformers, kind)(made(vocab_size=50, **config))


BERT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
            max_position_embeddings=32)
LLAMA = dict(BERT, num_attention_heads=4, num_key_value_heads=2, use_cache=False)
T5 = dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0,
          pad_token_id=0, use_cache=False)


def picture_model(kind, **config):
    """A model of transformers for images."""
    import transformers

    made = getattr(transformers, f"{kind.partition('For')[0]}Config")
    return getattr(transformers, kind)(made(num_labels=10, **config))


def segmentation(name):
    import torchvision

    return getattr(torchvision.models.segmentation, name)(
        num_classes=3, weights=None, weights_backbone=None)


IMAGE = (3, 32, 32)
RECIPES = {
    "torchvision/resnet18-group-norm": lambda: (vision("resnet18", norm_layer=group_norm),
                                                picture(*IMAGE), {}),
    "torchvision/resnet18": lambda: (vision("resnet18"), picture(3, 64, 64), {}),
    "torchvision/resnet50": lambda: (vision("resnet50"), picture(3, 64, 64), {}),
    "torchvision/mobilenet_v3_small": lambda: (vision("mobilenet_v3_small"), picture(3, 64, 64),
                                               {}),
    "torchvision/efficientnet_b0": lambda: (vision("efficientnet_b0"), picture(3, 64, 64), {}),
    "torchvision/densenet121": lambda: (vision("densenet121"), picture(3, 64, 64), {}),
    "torchvision/shufflenet_v2_x0_5": lambda: (vision("shufflenet_v2_x0_5"), picture(3, 64, 64),
                                               {}),
    "torchvision/convnext_tiny": lambda: (vision("convnext_tiny"), picture(*IMAGE), {}),
    "torchvision/swin_t": lambda: (vision("swin_t"), picture(3, 64, 64), {}),
    "torchvision/vit": lambda: (vision(
        "VisionTransformer", image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64,
        mlp_dim=128, dropout=0.1, attention_dropout=0.1), picture(*IMAGE), {}),
    "torchvision/lraspp_mobilenet_v3_large": lambda: (
        segmentation("lraspp_mobilenet_v3_large"), picture(3, 64, 64), {}),
    "timm/vit_tiny_patch16_224": lambda: (image_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=3, drop_path_rate=0.1),
        picture(*IMAGE), {}),
    "timm/convnext_atto": lambda: (image_model("convnext_atto", drop_path_rate=0.1),
                                   picture(*IMAGE), {}),
    "timm/mixer_s32_224": lambda: (image_model("mixer_s32_224"), picture(3, 224, 224), {}),
    "timm/regnety_002": lambda: (image_model("regnety_002"), picture(3, 64, 64), {}),
    "timm/mobilenetv4_conv_small": lambda: (image_model("mobilenetv4_conv_small"),
                                            picture(3, 64, 64), {}),
    "transformers/bert": lambda: (language_model("BertForSequenceClassification", num_labels=10,
                                                 **BERT), tokens(16), {}),
    "transformers/bert-mask": lambda: (
        language_model("BertForSequenceClassification", num_labels=10, **BERT),
        {"input_ids": tokens(16), "attention_mask": torch.tensor([1] * 12 + [0] * 4)}, {}),
    "transformers/distilbert": lambda: (language_model(
        "DistilBertForSequenceClassification", dim=64, n_layers=2, n_heads=2, hidden_dim=128,
        max_position_embeddings=32, num_labels=10), tokens(16), {}),
    "transformers/roberta": lambda: (language_model(
        "RobertaForSequenceClassification", num_labels=10, pad_token_id=0, **BERT), tokens(16),
        {}),
    "transformers/bert-tokens": lambda: (language_model("BertForTokenClassification", num_labels=5,
                                                        **BERT), tokens(16), {}),
    "transformers/gpt2": lambda: (language_model(
        "GPT2LMHeadModel", n_positions=32, n_embd=64, n_layer=2, n_head=2, use_cache=False,
        bos_token_id=0, eos_token_id=0), tokens(16), {}),
    "transformers/gpt2-last": lambda: (
        language_model("GPT2LMHeadModel", n_positions=32, n_embd=64, n_layer=2, n_head=2,
                       use_cache=False, bos_token_id=0, eos_token_id=0), tokens(16),
        {"call": lambda model, x: model(x).logits[:, -1]}),
    "transformers/llama": lambda: (language_model("LlamaForCausalLM", **LLAMA), tokens(16), {}),
    "transformers/qwen2": lambda: (language_model("Qwen2ForCausalLM", tie_word_embeddings=True,
                                                  **LLAMA), tokens(16), {}),
    "transformers/gemma": lambda: (language_model("GemmaForCausalLM", head_dim=16, **LLAMA),
                                   tokens(16), {}),
    "transformers/t5": lambda: (
        language_model("T5ForConditionalGeneration", **T5), (tokens(16), tokens(12)),
        {"call": lambda model, x, y: model(input_ids=x, decoder_input_ids=y).logits}),
    "transformers/vit": lambda: (picture_model(
        "ViTForImageClassification", image_size=32, patch_size=8, hidden_size=64,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=128), picture(*IMAGE), {}),
    "transformers/segformer": lambda: (picture_model(
        "SegformerForSemanticSegmentation", depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
        num_attention_heads=[1, 1, 1, 1], decoder_hidden_size=16), picture(3, 64, 64), {}),
}
