# SPDX-License-Identifier: MIT
"""`estimate`: parameters are those of transformers' models on the meta device, terms those worked out by hand."""

import json
import os
import re
import sys

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from harness import TREE

GIB = 1 << 30

# The families of analyzer/estimate/modelfamilies.def, and a shape that is not the default one.
SMALL = {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
         "intermediate_size": 320, "vocab_size": 1000}  # fmt: skip
GPT = {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 1000}
LATENT = SMALL | {"q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24,
                  "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_group": 1,
                  "topk_group": 1}  # fmt: skip
VARIANTS = {
    "llama": [SMALL, SMALL | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
              SMALL | {"head_dim": 48}],
    "mistral": [SMALL, SMALL | {"head_dim": 48}],
    "mixtral": [SMALL | {"num_local_experts": 4, "num_experts_per_tok": 1}],
    "qwen2": [SMALL, SMALL | {"tie_word_embeddings": True}],
    "qwen2_moe": [SMALL | {"num_experts": 4, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 128},
                  SMALL | {"num_experts": 4, "mlp_only_layers": [0]}],
    "qwen3": [SMALL, SMALL | {"attention_bias": True}],
    "qwen3_moe": [SMALL | {"num_experts": 4, "moe_intermediate_size": 64, "head_dim": 32},
                  SMALL | {"num_experts": 4, "mlp_only_layers": [1], "head_dim": 32}],
    "gemma": [SMALL], "gemma2": [SMALL], "gemma3_text": [SMALL], "granite": [SMALL],
    "smollm3": [SMALL | {"pad_token_id": 0}],
    "olmo": [SMALL], "olmo2": [SMALL], "phi": [SMALL], "phi3": [SMALL | {"pad_token_id": 0}], "cohere": [SMALL],
    "stablelm": [SMALL, SMALL | {"use_qkv_bias": True}, SMALL | {"use_parallel_residual": True}],
    "starcoder2": [SMALL, SMALL | {"use_bias": False}],
    "gpt2": [GPT, GPT | {"n_positions": 77, "n_inner": 500}],
    "gpt_neox": [GPT | {"intermediate_size": 320}],
    "gptj": [{"n_embd": 192, "n_layer": 3, "n_head": 6, "vocab_size": 1000, "rotary_dim": 16}],
    "opt": [GPT | {"ffn_dim": 320, "word_embed_proj_dim": 192, "max_position_embeddings": 100},
            GPT | {"ffn_dim": 320, "word_embed_proj_dim": 96, "do_layer_norm_before": False}],
    "deepseek_v2": [LATENT | {"first_k_dense_replace": 1}],
    "deepseek_v3": [LATENT | {"q_lora_rank": None, "attention_bias": True, "first_k_dense_replace": 2}],
    "bloom": [{"hidden_size": 192, "n_layer": 3, "n_head": 6, "vocab_size": 1000}],
    "falcon": [GPT, GPT | {"multi_query": False, "bias": True}, GPT | {"parallel_attn": False},
               GPT | {"new_decoder_architecture": True, "num_kv_heads": 2}],
}  # fmt: skip
CASES = [(family, variant) for family, variants in VARIANTS.items() for variant in [{}, *variants]]


# Encoders, and encoders with a decoder (analyzer/estimate/modelencoders.c): classes, and a shape that is not the default one.
TEXT = {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 320,
        "vocab_size": 1000, "max_position_embeddings": 70}  # fmt: skip
LABELS = {"id2label": {i: str(i) for i in range(7)}}
PAIR = {"d_model": 192, "vocab_size": 1000}
T5 = PAIR | {"d_kv": 16, "d_ff": 320, "num_layers": 3, "num_heads": 6}
ENCODERS = {
    "bert": (["BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification",
              "BertForTokenClassification", "BertForQuestionAnswering", "BertForNextSentencePrediction"],
             TEXT | LABELS),
    "roberta": (["RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification",
                 "RobertaForTokenClassification"], TEXT | LABELS | {"type_vocab_size": 1}),
    "xlm-roberta": (["XLMRobertaForMaskedLM"], TEXT),
    "camembert": (["CamembertModel"], TEXT),
    "vit": (["ViTModel", "ViTForImageClassification"],
            {key: TEXT[key] for key in ("hidden_size", "num_hidden_layers", "intermediate_size")} | LABELS
            | {"num_attention_heads": 6, "image_size": 100, "patch_size": 14, "qkv_bias": False}),
    "clip": (["CLIPModel"], {"projection_dim": 96, "text_config": TEXT,
                             "vision_config": {"hidden_size": 128, "num_hidden_layers": 2, "image_size": 90,
                                               "intermediate_size": 320, "num_attention_heads": 4}}),
    "t5": (["T5Model", "T5ForConditionalGeneration", "T5EncoderModel"],
           T5 | {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 2}),
    "mt5": (["MT5Model", "MT5EncoderModel"], T5),
    "bart": (["BartModel", "BartForConditionalGeneration"],
             PAIR | {"encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 320, "decoder_ffn_dim": 100,
                     "encoder_attention_heads": 6, "decoder_attention_heads": 6, "max_position_embeddings": 70}),
    "whisper": (["WhisperModel", "WhisperForConditionalGeneration"],
                PAIR | {"encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 320, "decoder_ffn_dim": 100,
                        "encoder_attention_heads": 6, "decoder_attention_heads": 6, "num_mel_bins": 20,
                        "max_source_positions": 60, "max_target_positions": 30, "pad_token_id": 0}),
    "distilbert": (["DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification",
                    "DistilBertForTokenClassification"],
                   {"dim": 192, "hidden_dim": 320, "n_layers": 3, "n_heads": 6, "vocab_size": 1000} | LABELS),
    "electra": (["ElectraModel", "ElectraForPreTraining", "ElectraForMaskedLM", "ElectraForSequenceClassification",
                 "ElectraForTokenClassification", "ElectraForQuestionAnswering"],
                TEXT | LABELS | {"embedding_size": 192}),
}  # fmt: skip
ENCODER_CASES = [(family, name, shape) for family, (names, shape) in ENCODERS.items() for name in names]


@pytest.fixture
def estimate(vramtrace):
    return lambda *arguments: vramtrace.json("estimate", *arguments)


def terms_of(result):
    return {row["term"].strip(): row["bytes"] for row in result["terms"]}


def parameters_of(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("family, variant", CASES, ids=[f"{family}-{i}" for i, (family, _) in enumerate(CASES)])
def test_parameters_of_families(estimate, tmp_path, family, variant):
    """As transformers writes the configuration, and as a file with nothing but what differs."""
    config = CONFIG_MAPPING[family](**variant)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    config.save_pretrained(tmp_path)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"model_type": family} | variant))
    for path in (tmp_path / "config.json", bare):
        result = estimate("--config", path)
        assert result["parameters"] == parameters_of(model), path
        assert result["exact_parameters"]


HEADS = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "DoubleHeadsModel")


@pytest.mark.parametrize("family, prefix", [("llama", "Llama"), ("qwen2", "Qwen2"), ("gpt2", "GPT2"), ("gptj", "GPTJ"),
                                            ("phi", "Phi"), ("opt", "OPT"), ("mixtral", "Mixtral")])  # fmt: skip
def test_parameters_of_heads(estimate, tmp_path, family, prefix):
    """Decoders without the output layer, or with a classifier instead."""
    for name in (prefix + head for head in HEADS if hasattr(transformers, prefix + head)):
        variant = VARIANTS[family][-1] | LABELS
        with torch.device("meta"):
            model = getattr(transformers, name)(CONFIG_MAPPING[family](**variant))
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"model_type": family, "architectures": [name]} | variant))
        result = estimate("--config", path)
        assert result["exact_parameters"] == (result["parameters"] == parameters_of(model)), name
        assert result["exact_parameters"] or name.endswith("DoubleHeadsModel")


@pytest.mark.parametrize("family, name, shape", ENCODER_CASES, ids=[name for _, name, _ in ENCODER_CASES])
def test_parameters_of_encoders(estimate, tmp_path, family, name, shape):
    for variant in {}, shape:
        config = CONFIG_MAPPING[family](**variant)
        with torch.device("meta"):
            model = getattr(transformers, name)(config)
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"model_type": family, "architectures": [name]} | variant))
        result = estimate("--config", path)
        assert result["parameters"] == parameters_of(model), variant
        assert result["exact_parameters"]


def test_sequences_of_encoders(estimate, tmp_path):
    """As long as they have positions for, an image's patches; no KV cache."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "vit", "image_size": 336, "patch_size": 14}))
    assert estimate("--config", path)["tokens"] == 24 * 24 + 1
    assert estimate("--config", path, "-b", "2", "--image", "28x28")["tokens"] == 2 * 4
    assert set(terms_of(estimate("--config", path, "--inference"))) == {"parameters", "context", "total"}
    path.write_text(json.dumps({"model_type": "bert"}))
    assert estimate("--config", path)["tokens"] == 512
    assert estimate("--config", path, "--length", "128")["tokens"] == 128


@pytest.mark.parametrize(
    "parameters, config",
    [
        (1_543_714_304, {"model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
                         "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
                         "tie_word_embeddings": True}),
        (8_030_261_248, {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
                         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                         "vocab_size": 128256, "tie_word_embeddings": False}),
        (46_702_792_704, {"model_type": "mixtral"}),
        (124_439_808, {"model_type": "gpt2"}),
        (247_577_856, {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 768,
                       "num_layers": 12, "num_heads": 12, "feed_forward_proj": "gated-gelu",
                       "tie_word_embeddings": False}),
        (41_303_293_952, {"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128,
                          "num_hidden_layers": 60, "num_kv_heads": 8, "new_decoder_architecture": True}),
    ],
    ids=["Qwen2.5-1.5B", "Llama-3.1-8B", "Mixtral-8x7B", "GPT-2", "FLAN-T5-base", "Falcon-40B"],
)  # fmt: skip
def test_published_parameters(estimate, tmp_path, parameters, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert estimate("--config", path)["parameters"] == parameters


def test_output_layer_that_transformers_ties(vramtrace, estimate, tmp_path):
    """A T5 whose file has its output layer apart, as its published weights have: what transformers makes of it is said."""
    config = T5 | {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "tie_word_embeddings": False}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with torch.device("meta"):
        made = parameters_of(transformers.T5ForConditionalGeneration(transformers.T5Config(**config)))
    less = int(re.search(r"ties the output layer: (\d+) parameters less", vramtrace.call("estimate", "--config", path).stdout)[1])
    assert estimate("--config", path)["parameters"] - less == made


def test_all_families_are_tested():
    definitions = (TREE / "analyzer" / "estimate" / "modelfamilies.def").read_text()
    assert {line.split('"')[1] for line in definitions.splitlines() if line.startswith("FAMILY(")} == {
        *VARIANTS, "qwen2_vl", "qwen2_vl_text"
    }  # fmt: skip
    encoders = (TREE / "analyzer" / "estimate" / "modelencoders.c").read_text()
    assert set(re.findall(r'{ "([\w-]+)",\s+count_', encoders)) == set(ENCODERS)


def llava(tmp_path, hidden, inter, layers, heads):
    """The files that the models' authors publish leave out what is LLaMA's default."""
    path = tmp_path / "llava.json"
    text = {"model_type": "llama", "vocab_size": 32064}
    if hidden != 4096:
        text |= {"hidden_size": hidden, "intermediate_size": inter, "num_hidden_layers": layers,
                 "num_attention_heads": heads}  # fmt: skip
    vision = {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
              "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}  # fmt: skip
    path.write_text(json.dumps({"model_type": "llava", "text_config": text, "vision_config": vision}))
    return path


@pytest.mark.parametrize("size", [(4096, 11008, 32, 32), (5120, 13824, 40, 40)], ids=["7B", "13B"])
def test_llava(estimate, tmp_path, size):
    from transformers import AutoModelForImageTextToText, LlavaConfig

    path = llava(tmp_path, *size)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(LlavaConfig(**json.loads(path.read_text())))
    result = estimate("--config", path, "--precision", "fp16")
    assert result["parameters"] == parameters_of(model)
    parts = {name: 0 for name in ("language", "vision", "connector")}
    for name, parameter in model.named_parameters():
        part = "vision" if "vision_tower" in name else "connector" if "multi_modal_projector" in name else "language"
        parts[part] += parameter.numel()
    assert parts == {name: result[f"{name}_parameters"] for name in parts}
    assert terms_of(result)["parameters"] == 2 * parameters_of(model)


@pytest.mark.parametrize("is_flat", [True, False])
def test_qwen2_vl(estimate, tmp_path, is_flat):
    """As its authors publish it, the text's keys beside the vision's, and as transformers writes it."""
    from transformers import AutoModelForImageTextToText, Qwen2VLConfig

    text = SMALL | {"tie_word_embeddings": True}
    vision = {"depth": 3, "embed_dim": 80, "num_heads": 4, "hidden_size": 192, "mlp_ratio": 3}
    config = {"model_type": "qwen2_vl", "vision_config": vision}
    config |= text if is_flat else {"text_config": SMALL, "tie_word_embeddings": True}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(Qwen2VLConfig(**config))
    result = estimate("--config", path)
    assert result["parameters"] == parameters_of(model) and result["exact_parameters"]
    language = sum(p.numel() for name, p in model.named_parameters() if ".visual." not in name)
    assert result["language_parameters"] == language


FORMULAS = [
    (), ("-o", "adamw8bit", "--frozen", "50%"), ("--zero", "3", "--gpus", "8", "--tensor-parallel", "4"),
    ("--checkpointing", "--layers", "32", "--hidden", "4096", "--tensor-parallel", "4", "-p", "mixed"),
    ("--eager", "--layers", "32", "--heads", "32", "--tensor-parallel", "4", "-b", "3"),
    ("--cross-attention", "1024x576", "--layers", "24", "--hidden", "4096", "-b", "4", "--tensor-parallel", "2"),
    ("--inference", "--layers", "32", "--hidden", "4096", "--heads", "32", "-b", "3", "-p", "bf16"),
    ("--activations", "2.5x", "--tensor-parallel", "2"), ("--activations", "5065216", "--image", "336x336"),
]  # fmt: skip


@pytest.mark.parametrize("options", FORMULAS)
def test_formulas_give_their_terms(vramtrace, estimate, options):
    """What stands behind each term, worked out as it stands; and a line of it has 80 columns."""
    for term in estimate("-n", "70B", *options)["terms"]:
        text = re.sub(r"layers of [\d.]+ GiB:", "x", re.sub(r"\([a-z]+[\w]*\)", "", term["formula"].replace(",", "")))
        text = re.sub(r"\b(bytes|trainable|tokens|values|GPUs|TP)\b", "", text).replace(" x ", " * ").replace("^", "**")
        if re.search("[a-z]", text):
            assert term["term"] in ("context", "total") or text == "layer inputs + one layer: checkpointing"
        else:
            assert eval(text) == pytest.approx(term["bytes"], rel=1e-5), term
    lines = vramtrace.call("estimate", "-n", "70B", "--capacity", "80GiB", *options).stdout.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 24, lines


def test_budget_of_parts(estimate, tmp_path):
    """Language model, vision encoder and connector share what the model's own terms take; what is frozen has no state."""
    config = llava(tmp_path, 4096, 11008, 32, 32)
    for frozen, trained in (("vision", {"language model", "connector"}), ("vision,language", {"connector"})):
        result = estimate("--config", config, "-p", "bf16", "--frozen", frozen)
        terms, parts = terms_of(result), {row["part"]: row for row in result["parts"]}
        assert {name for name, row in parts.items() if not row["frozen"]} == trained
        for name, row in parts.items():  # parameters, gradients, two states
            assert row["bytes"] == row["parameters"] * 2 * (4 if name in trained else 1)
        sums = [sum(row[key] for row in parts.values()) for key in ("parameters", "bytes")]
        assert sums == [result["parameters"], terms["parameters"] + terms["optimizer"] + terms["gradients"]]


def test_published_figures(estimate):
    """LLaVA-1.5-7B as it is usually rounded (7 + 0.3 thousand million), and a 13B model's budget."""
    assert terms_of(estimate("-n", "7.3B", "-p", "fp16"))["parameters"] == 14.6e9
    result = estimate("-n", "13.3555B", "-p", "fp16", "--activations", "2.5x", "--accumulate", "--context", "0")
    terms = terms_of(result)
    budget = [terms[name] for name in ("parameters", "gradients", "optimizer", "activations", "total")]
    assert [f"{value / 1e9:.2f}" for value in budget] == ["26.71", "26.71", "53.42", "66.78", "173.62"]


def test_images(estimate):
    assert estimate("-n", "7B", "--image", "336x336")["image_tokens"] == 576
    assert estimate("-n", "7B", "--image", "1024x1024")["image_tokens"] == 73**2 == 5329
    assert estimate("-n", "7B", "--image", "1024x768", "--patch", "16")["image_tokens"] == 64 * 48


def test_attention(estimate):
    result = estimate("-n", "7B", "--eager", "--layers", "32", "--heads", "32", "--length", "2048")
    assert result["attention_bytes_per_layer"] == 2048**2 * 32 * 4 == GIB // 2
    assert terms_of(result)["attention"] == 32 * GIB // 2
    result = estimate("-n", "7B", "--layers", "24", "--hidden", "4096", "--cross-attention", "1024x576")
    assert f"{terms_of(result)['cross-attention'] / GIB:.2f}" == "0.47"


def test_activations(estimate):
    result = estimate("-n", "1543714304", "-b", "16", "-l", "256")
    assert f"{result['activations_per_token'] / 1e6:.2f}" == "2.57"
    assert terms_of(result)["activations"] == pytest.approx(16 * 256 * 4 * (4.6894e-4 * 1543714304 + 1.8494e6))
    measured = estimate("-n", "1543714304", "-b", "16", "-l", "256", "--activations", "5065216")
    assert terms_of(measured)["activations"] == 16 * 256 * 4 * 5065216


def test_kv_cache(estimate, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "mistral"}))
    result = estimate("--config", path, "-p", "bf16", "--inference", "-b", "4", "-l", "8192")
    assert terms_of(result)["KV cache"] == 2 * 32 * 4 * 8 * 8192 * 128 * 2


def test_parallel(estimate):
    whole = terms_of(estimate("-n", "8B"))
    for zero, spread in ((1, {"optimizer"}), (2, {"optimizer", "gradients"}),
                         (3, {"optimizer", "gradients", "parameters"})):  # fmt: skip
        terms = terms_of(estimate("-n", "8B", "--zero", zero, "--gpus", "8"))
        for name in ("optimizer", "gradients", "parameters"):
            assert terms[name] == whole[name] / (8 if name in spread else 1)
    frozen = terms_of(estimate("-n", "8B", "--frozen", "99%"))
    assert frozen["gradients"] == pytest.approx(whole["gradients"] / 100)
    assert frozen["parameters"] == whole["parameters"]
    assert terms_of(estimate("-n", "8B", "--tensor-parallel", "4"))["parameters"] == whole["parameters"] / 4


@pytest.mark.parametrize("options", [(), ("--accumulate",), ("--inference", "--layers", "32", "--heads", "32",
                                                             "--hidden", "4096")])  # fmt: skip
def test_largest_batch(estimate, options):
    batch = estimate("-n", "1.5B", "-p", "bf16", "--capacity", "80GiB", *options)["largest_batch"]
    assert batch > 1
    assert estimate("-n", "1.5B", "-p", "bf16", "-b", batch, *options)["total_bytes"] <= 80 * GIB
    assert estimate("-n", "1.5B", "-p", "bf16", "-b", batch + 1, *options)["total_bytes"] > 80 * GIB
    assert estimate("-n", "100B", "--capacity", "80GiB")["largest_batch"] == 0


STEP = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(65536, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated(), flush=True)
"""


def test_measure_and_against(vramtrace, tmp_path):
    """A step in a scratch folder of its own, nothing of its stdout in ours, no recording left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # PyTorch's own cache lies elsewhere: what is left in the scratch folder is ours.
    environment = os.environ | {"TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = vramtrace.call("estimate", "--json", "-n", 8 * 1024**2, "--capacity", "80GiB", "--measure", "--", sys.executable, "-c", STEP,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    peak = int(done.stderr.split()[0])
    assert result["measured"]["allocated_peak_bytes"] == peak
    assert terms_of(result)["activations"] == peak - 3 * 4 * 8 * 1024**2
    assert not list(scratch.iterdir())
    rest = 3 * 4 * 8 * 1024**2
    tensors = (80 * GIB - (500 << 20)) * peak / result["measured"]["reserved_peak_bytes"]  # the rest is cached
    assert result["largest_batch"] == (tensors - rest) // (peak - rest)

    recorded = vramtrace.record(tmp_path / "step.vtr", [sys.executable, "-c", STEP])
    result = vramtrace.json("estimate", "-n", 8 * 1024**2, "--against", recorded.path)
    assert result["against"]["allocated_peak_bytes"] == peak
    text = vramtrace.call("estimate", "-n", 8 * 1024**2, "--against", recorded.path).stdout
    assert f"{peak / GIB:.2f} GiB measured" in text


def test_measure_in_trouble(vramtrace):
    done = vramtrace.call("estimate", "-n", "1M", "--measure", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 2 and "ended with status 3" in done.stderr
    done = vramtrace.call("estimate", "-n", "1M", "--measure", "--", "true")
    assert done.returncode == 2 and "used no GPU memory" in done.stderr
