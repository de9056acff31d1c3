"""The adapters whose logits peft_values.py writes: {name: (base, a name in variants.py; settings of PEFT's LoraConfig)}."""
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
ALL = ATTENTION + MLP


def lora(modules, **more):
    return {"task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 4, "target_modules": modules, **more}


ADAPTERS = {
    "lora": ("llama", lora(ALL)),
    "saved-modules": ("llama", lora(ALL, modules_to_save=["embed_tokens", "lm_head"])),
    "saved-head-tied": ("llama-tied", lora(ALL, modules_to_save=["lm_head"])),
    "dora": ("llama", lora(ALL, use_dora=True)),
    "dora-attention": ("llama", lora(ATTENTION, use_dora=True)),
    "dora-output-and-down": ("llama", lora(["o_proj", "down_proj"], use_dora=True)),
    "dora-biases": ("qwen2", lora(ALL, use_dora=True, use_rslora=True)),
    "dora-all-biases": ("llama-all-biases", lora(ALL, use_dora=True)),
    "dora-ranks": ("qwen3", lora(ALL, use_dora=True, rank_pattern={"q_proj": 2, "down_proj": 7}, alpha_pattern={"down_proj": 3})),
    "dora-post-norms": ("gemma3", lora(ALL, use_dora=True)),
    "dora-head": ("llama", lora(ALL + ["lm_head"], use_dora=True)),
    "dora-fused-projections": ("phi3", lora("all-linear", use_dora=True)),
    "dora-states": ("qwen3.5", lora("all-linear", use_dora=True)),
}
