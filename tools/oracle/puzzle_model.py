"""Nemotron 3 Puzzle for transformers_values.py: Transformers' own Nemotron-H, with a config for each layer. Transformers 5.24 has no such model; a folder's
"block_configs" state for each layer what a Nemotron-H states for all of them, and a layer is a Nemotron-H layer with these values."""
import copy

import transformers
from transformers.models.nemotron_h import modeling_nemotron_h as nemotron_h

LAYER_TYPES = {"mamba": "linear_attention", "attention": "full_attention", "moe": "moe", "mlp": "mlp"}


class NemotronHPuzzleConfig(transformers.NemotronHConfig):
    model_type = "nemotron_h_puzzle"
    block_configs: list | None = None

    def __post_init__(self, **kwargs):
        if self.block_configs:
            self.layers_block_type = [LAYER_TYPES[block["block_type"]] for block in self.block_configs]
        super().__post_init__(**kwargs)

    def of_layer(self, layer):
        """Returns the config of a Nemotron-H whose layers are all like this one."""
        config = copy.copy(self)
        for key, value in self.block_configs[layer].items():
            if key != "block_type":
                setattr(config, key, value)
        return config


class NemotronHPuzzleForCausalLM(nemotron_h.NemotronHForCausalLM):
    config_class = NemotronHPuzzleConfig

    def __init__(self, config):
        super().__init__(config)
        for i, layer in enumerate(self.model.layers):
            layer.mixer = nemotron_h.MIXER_TYPES[layer.block_type](config.of_layer(i), layer_idx=i)
        self.post_init()


transformers.AutoConfig.register(NemotronHPuzzleConfig.model_type, NemotronHPuzzleConfig)
transformers.AutoModelForCausalLM.register(NemotronHPuzzleConfig, NemotronHPuzzleForCausalLM)
