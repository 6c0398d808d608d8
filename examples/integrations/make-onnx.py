"""Makes embeddings.onnx: a graph that looks rows up in an embedding and compares them with all others. Its weights are not in it:
it refers to external data named `model.onnx_data`, which the
examples supply from a model file.

    pip install onnx==1.23.2
    python examples/integrations/make-onnx.py
"""

from pathlib import Path

from onnx import TensorProto, helper, save

VOCABULARY, WIDTH = 256, 64

weights = TensorProto(name="wte", data_type=TensorProto.FLOAT, dims=[VOCABULARY, WIDTH])
weights.data_location = TensorProto.EXTERNAL
for key, value in {"location": "model.onnx_data", "offset": 0, "length": VOCABULARY * WIDTH * 4}.items():
    weights.external_data.add(key=key, value=str(value))

graph = helper.make_graph(
    [
        helper.make_node("Gather", ["wte", "input_ids"], ["last_hidden_state"]),
        helper.make_node("Transpose", ["wte"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["last_hidden_state", "columns"], ["scores"]),
    ],
    "embeddings",
    [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "n"])],
    [
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "n", WIDTH]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "n", VOCABULARY]),
    ],
    [weights],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
save(model, Path(__file__).with_name("embeddings.onnx"))
