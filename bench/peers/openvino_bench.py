#!/usr/bin/python3
"""Offers OpenVINO GenAI with llama-bench's flags and JSON, for compare.py's --peer-bench. Needs the package openvino-genai.

    compare.py MODEL.gguf --peer-bench 'OpenVINO=/path/to/venv/bin/python openvino_bench.py'

It reads GGUF files of a few families. The KV type and the context before the test cannot be chosen: -ctk and -ctv are accepted and
ignored. Prefill is the time to the first token of a random prompt; decode is the time of the later tokens after a prompt of one token.
"""
import argparse
import json

import numpy as np
import openvino as ov
import openvino_genai


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True)
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-ctk")
    parser.add_argument("-ctv")
    parser.add_argument("-p", type=int, default=0)
    parser.add_argument("-n", type=int, default=0)
    parser.add_argument("-r", type=int, default=3)
    parser.add_argument("-o", choices=("json",))
    options = parser.parse_args()
    # The default attention, PA, is 3 to 5% faster than SDPA. Each prompt is new, so the prefix cache never hits.
    pipe = openvino_genai.LLMPipeline(options.m, "CPU", INFERENCE_NUM_THREADS=options.t)
    rng = np.random.default_rng(7)
    samples = []
    for _ in range(options.r + 1):
        ids = rng.integers(1000, 20000, (1, max(options.p, 1)))
        inputs = openvino_genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        config = openvino_genai.GenerationConfig(max_new_tokens=max(options.n + 1, 2), ignore_eos=True, do_sample=False)
        figures = pipe.generate(inputs, config).perf_metrics
        samples.append(1000 * options.p / figures.get_ttft().mean if options.p else 1000 / figures.get_tpot().mean)
    print(json.dumps([{"samples_ts": samples[1:]}]))  # the first sample is the warm-up


if __name__ == "__main__":
    main()
