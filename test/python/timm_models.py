"""The models of PyTorch's TIMM dashboard (benchmarks/dynamo/timm_models_list.txt), narrowed.

Each is made by timm, with small images and fewer blocks, and smaller widths where its constructor has them; what
else its configuration says stays. Dropout and stochastic depth, which the dashboard turns off, are on.
"""

import cleave_path  # noqa: F401
import cleave
import torch
import torch.nn.functional as F
from torch import nn

BATCH, CLASSES = 2, 5


def _first_of_stages(stages, after=1):
    """Without the blocks that a stage repeats: those after its first keep the shape."""
    for stage in stages:
        del stage[after:]


def _fewer_blocks(model):
    _first_of_stages(model.blocks)


def _fewer_ghosts(model):
    """Of a stage with two widths the block that widens."""
    del model.blocks[6][4:], model.blocks[6][:3], model.blocks[8][1:]


def _fewer_inceptions(model):
    """One of each kind."""
    for name in ("Mixed_5d", "Mixed_6c", "Mixed_6d", "Mixed_6e", "Mixed_7c"):
        setattr(model, name, nn.Identity())


def _fewer_parts(model):
    """Two blocks in the stages of MobileViT that attend: a convolution and attention."""
    _first_of_stages(model.stages, after=2)
    for stage in model.stages[2:]:
        _first_of_stages([stage[1].transformer])


def _transformer(size, **changes):
    return {"img_size": size, "embed_dim": 32, "depth": 2, "num_heads": 2, **changes}


_NARROW_NORM_FREE = {"depths": (1, 1, 1, 1), "channels": (32, 32, 64, 64), "stem_chs": 16, "group_size": 16}

# Names as on the dashboard: images of this size, arguments of timm's function, and what is taken away afterwards.
MODELS = {
    "adv_inception_v3": (107, {}, _fewer_inceptions),
    "beit_base_patch16_224": (32, _transformer(32)),
    "convnextv2_nano.fcmae_ft_in22k_in1k": (64, {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    "deit_base_distilled_patch16_224": (32, _transformer(32)),
    "deit_tiny_patch16_224.fb_in1k": (32, _transformer(32)),
    "dm_nfnet_f0": (64, _NARROW_NORM_FREE),
    "ghostnet_100": (64, {}, _fewer_ghosts),
    "inception_v3": (107, {}, _fewer_inceptions),
    "mobilenetv2_100": (64, {}, _fewer_blocks),
    "mobilenetv3_large_100": (64, {}, _fewer_blocks),
    "mobilevit_s": (64, {}, _fewer_parts),
    "nfnet_l0": (64, {**_NARROW_NORM_FREE, "group_size": 4}),
    "repvgg_a2": (64, {"width_factor": 0.25}, lambda model: _first_of_stages(model.stages, after=2)),
    "swin_base_patch4_window7_224": (
        56, {"img_size": 56, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4)},
    ),
    "tf_efficientnet_b0": (64, {}, _fewer_blocks),
    "visformer_small": (64, {"img_size": 64, "init_channels": 16, "embed_dim": 48, "depth": (1, 1, 1)}),
    "vit_base_patch14_dinov2.lvd142m": (28, _transformer(28)),
    "vit_base_patch16_siglip_256": (32, _transformer(32)),
}  # fmt: skip


def make(name):
    """A model's ExportSpec: a training step with momentum."""
    import timm

    torch.manual_seed(0)
    size, changes, *take_away = MODELS[name]
    model = timm.create_model(name, num_classes=CLASSES, **_dropout(name), **changes)
    for each in take_away:
        each(model)
    images, labels = torch.randn(BATCH, 3, size, size), torch.randint(CLASSES, (BATCH,))
    return cleave.ExportSpec(
        model.train(), (images,), loss=F.cross_entropy, targets=(labels,),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), name=name.partition(".")[0].lower(),
    )  # fmt: skip


# Their constructors have no stochastic depth.
_NO_DEPTH = {"adv_inception_v3", "inception_v3", "ghostnet_100"}


def _dropout(name):
    return {"drop_rate": 0.1, **({} if name in _NO_DEPTH else {"drop_path_rate": 0.1})}
