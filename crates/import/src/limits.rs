//! Every bound on what an imported file may make us do, beside those of `ztensor_core::limits`.
#![forbid(unsafe_code)]

/// Bytes of a zip's central directory, unless an option says otherwise: 2 million members of 128 bytes.
pub const ZIP_DIRECTORY_BYTES: u64 = 256 << 20;
/// Bytes before the tensors of a GGUF file, unless an option says otherwise. A vocabulary of 256,000 tokens with its merges has 15 MB.
pub const GGUF_INDEX_BYTES: u64 = 256 << 20;
/// Bytes of the header of one array. A header of a plain array has 128 bytes; only structured types have more.
pub const NPY_HEADER_BYTES: u64 = 1 << 20;
/// Bytes of all headers in one archive, unless an option says otherwise.
pub const NPZ_HEADERS_BYTES: u64 = 256 << 20;
/// Nested lists and tuples in a header. A structured type in a structured type takes two.
pub const LITERAL_DEPTH: u32 = 32;
/// Bytes of a pickle, unless an option says otherwise: what is large lies beside it.
pub const PICKLE_BYTES: u64 = 1 << 30;
/// Calls around a value that give it back, such as a parameter around its tensor. Real ones are one or two.
pub const PICKLE_ALIASES: u32 = 16;
/// Nested values that are searched for tensors. A module in a module takes three.
pub const PICKLE_DEPTH: u32 = 256;
/// How many times a value that several others hold is looked at, on average.
pub const PICKLE_TIMES: u64 = 16;

/// Bytes of an ONNX model that are looked at beside its data, unless an option says otherwise. Nodes of a large model have some 50 MB.
pub const ONNX_INDEX_BYTES: u64 = 128 << 20;
/// Bytes of those that a tensor counts as, beside its name: what a catalog keeps of one.
pub const ONNX_TENSOR_BYTES: u64 = 64;
/// Bytes of one name in an ONNX model, and of the path of a subgraph, which is part of all names in it.
pub const ONNX_NAME_BYTES: u64 = 64 << 10;
pub const ONNX_PATH_BYTES: usize = 4 << 10;
/// Subgraphs in subgraphs, as many as the protobuf libraries read: 100 messages, three for each.
pub const ONNX_DEPTH: u32 = 32;

/// Bytes of the `.xml` of an OpenVINO model, unless an option says otherwise. One of a large language model has 5 MB.
pub const OPENVINO_INDEX_BYTES: u64 = 256 << 20;
/// Bytes of those that a constant counts as, beside its path.
pub const OPENVINO_TENSOR_BYTES: u64 = 64;
/// Elements in elements of its XML: a body in a body takes three.
pub const OPENVINO_DEPTH: usize = 96;
/// Attributes of one element. Layers have some ten.
pub const OPENVINO_ATTRIBUTES: usize = 1024;
/// Bytes of one attribute. `rt_info` keeps the templates of chats there.
pub const OPENVINO_TEXT_BYTES: usize = 16 << 20;
/// Bytes of the name of a constant.
pub const OPENVINO_NAME_BYTES: usize = 64 << 10;
/// Bytes of what stands before the names of constants in a body.
pub const OPENVINO_PATH_BYTES: usize = 4 << 10;

/// Bytes that are read of an HDF5 file beside its data, unless an option says otherwise.
pub const HDF5_INDEX_BYTES: u64 = 1 << 30;
/// How many times the bytes of a file are read for that, on average: parts of it may be parts of several objects.
pub const HDF5_READS: u64 = 256;
/// The same of the index of one dataset's chunks, all of which is read twice, since its checksums are compared first, and the beginning of
/// each part of it once more.
pub const HDF5_INDEX_READS: u64 = 6;
/// Chunks of a dataset whose places are looked up when the file is opened. Those of a larger one are with its first data.
pub const HDF5_CHUNKS_AT_OPEN: u64 = 1 << 16;
/// Groups in groups.
pub const HDF5_DEPTH: usize = 128;
/// Soft links that lead to soft links.
pub const HDF5_LINKS: u32 = 16;
/// Bytes of a dataset of texts, or of references to such, that becomes an attribute.
pub const HDF5_TEXT_BYTES: u64 = 1 << 20;
/// Bytes of a text about a model in Keras' archive.
pub const KERAS_TEXT_BYTES: u64 = 64 << 20;

/// Bytes of the index of a TensorFlow checkpoint, and of its keys, unless an option says otherwise. One of 100,000 tensors has 10 MB.
pub const TENSORFLOW_INDEX_BYTES: u64 = 512 << 20;
/// Bytes of those that an entry counts as: what is kept of one.
pub const TENSORFLOW_ENTRY_BYTES: u64 = 128;
/// How many times its bytes a block of Snappy can hold: a copy of 64 bytes takes three.
pub const TENSORFLOW_SNAPPY_TIMES: u64 = 32;

/// Bytes that are looked at of a Flax checkpoint beside its arrays, unless an option says otherwise.
pub const FLAX_INDEX_BYTES: u64 = 256 << 20;
/// Bytes of one key.
pub const FLAX_NAME_BYTES: u64 = 64 << 10;
/// Bytes of a text or of bytes that become an attribute.
pub const FLAX_VALUE_BYTES: u64 = 1 << 20;
/// Nested maps and lists: attributes may be no deeper.
pub const FLAX_DEPTH: u32 = 120;

/// Bytes that are looked at of Paddle's parameters in one file beside their elements, unless an option says otherwise.
pub const PADDLE_INDEX_BYTES: u64 = 128 << 20;
/// Bytes of the program beside them, unless an option says otherwise.
pub const PADDLE_PROGRAM_BYTES: u64 = 256 << 20;
/// Bytes of the description of one of them, and of its name.
pub const PADDLE_DESC_BYTES: u64 = 4 << 10;
pub const PADDLE_NAME_BYTES: u64 = 64 << 10;
/// Levels of details of one of them. Parameters have none.
pub const PADDLE_LOD_LEVELS: u64 = 64;

/// Bytes of all messages of an Arrow file without their data, unless an option says otherwise. A batch of 100 columns has 4 kB.
pub const ARROW_INDEX_BYTES: u64 = 256 << 20;
/// Fields in fields of an Arrow schema.
pub const ARROW_DEPTH: u32 = 64;
/// Bytes of one name of an Arrow schema, of a TFLite model, and of a path of such.
pub const FLATBUFFER_NAME_BYTES: u64 = 64 << 10;
/// Bytes of one value of an Arrow file's metadata: pandas and extensions keep JSON there.
pub const ARROW_METADATA_BYTES: u64 = 16 << 20;

/// Bytes of a TFLite model that are looked at beside its data, unless an option says otherwise.
pub const TFLITE_INDEX_BYTES: u64 = 256 << 20;
/// Bytes of a metadata buffer of a TFLite model that becomes an attribute.
pub const TFLITE_METADATA_BYTES: u64 = 64 << 10;
