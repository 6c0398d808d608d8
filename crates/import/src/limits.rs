//! Limits on the work that an imported file may cause, in addition to those of `ztensor_core::limits`.
#![forbid(unsafe_code)]

/// Maximum bytes of a zip's central directory, unless set by an option: 2 million members of 128 bytes.
pub const ZIP_DIRECTORY_BYTES: u64 = 256 << 20;
/// Maximum bytes of an array header. The header of a plain array has 128 bytes; only structured types have more.
pub const NPY_HEADER_BYTES: u64 = 1 << 20;
/// Maximum bytes of all headers in an archive, unless set by an option.
pub const NPZ_HEADERS_BYTES: u64 = 256 << 20;
/// Maximum nesting of lists and tuples in a header. A structured type in a structured type takes two.
pub const LITERAL_DEPTH: u32 = 32;
/// Maximum bytes of a pickle, unless set by an option: large data is stored outside it.
pub const PICKLE_BYTES: u64 = 1 << 30;
/// Maximum nested calls that return their argument, such as a parameter around its tensor. Real files have one or two.
pub const PICKLE_ALIASES: u32 = 16;
/// Maximum nesting that is searched for tensors. A module in a module takes three.
pub const PICKLE_DEPTH: u32 = 256;
/// How often a shared value is visited, on average.
pub const PICKLE_TIMES: u64 = 16;

/// Maximum bytes read of an ONNX model in addition to its data, unless set by an option. The nodes of a large model have some 50 MB.
pub const ONNX_INDEX_BYTES: u64 = 128 << 20;
/// Bytes charged per tensor in addition to its name: the size of its catalog entry.
pub const ONNX_TENSOR_BYTES: u64 = 64;
/// Maximum bytes of a name in an ONNX model, and of the path of a subgraph, which prefixes all names in it.
pub const ONNX_NAME_BYTES: u64 = 64 << 10;
pub const ONNX_PATH_BYTES: usize = 4 << 10;
/// Maximum nesting of subgraphs, matching the protobuf libraries: 100 messages, three for each.
pub const ONNX_DEPTH: u32 = 32;

/// Maximum bytes of the `.xml` of an OpenVINO model, unless set by an option. That of a large language model has 5 MB.
pub const OPENVINO_INDEX_BYTES: u64 = 256 << 20;
/// Bytes charged per constant in addition to its path.
pub const OPENVINO_TENSOR_BYTES: u64 = 64;
/// Maximum nesting of XML elements: a body in a body takes three.
pub const OPENVINO_DEPTH: usize = 96;
/// Maximum attributes of one element. Layers have about ten.
pub const OPENVINO_ATTRIBUTES: usize = 1024;
/// Maximum bytes of one attribute. `rt_info` holds chat templates.
pub const OPENVINO_TEXT_BYTES: usize = 16 << 20;
/// Maximum bytes of the name of a constant.
pub const OPENVINO_NAME_BYTES: usize = 64 << 10;
/// Maximum bytes of the prefix of constant names in a body.
pub const OPENVINO_PATH_BYTES: usize = 4 << 10;

/// Maximum bytes read of an HDF5 file in addition to its data, unless set by an option.
pub const HDF5_INDEX_BYTES: u64 = 1 << 30;
/// How often the bytes of a file are read for that, on average: several objects may share parts of it.
pub const HDF5_READS: u64 = 256;
/// The limit of `HDF5_READS` for the chunk index of one dataset. All of it is read twice, because its checksums are compared first, and the
/// beginning of each part is read once more.
pub const HDF5_INDEX_READS: u64 = 6;
/// Maximum chunks of a dataset that are located when the file is opened. Those of a larger dataset are located when its data is first read.
pub const HDF5_CHUNKS_AT_OPEN: u64 = 1 << 16;
/// Maximum nesting of groups.
pub const HDF5_DEPTH: usize = 128;
/// Maximum soft links followed in a row.
pub const HDF5_LINKS: u32 = 16;
/// Maximum bytes of a dataset of strings, or of references to strings, that becomes an attribute.
pub const HDF5_TEXT_BYTES: u64 = 1 << 20;
/// Maximum bytes of a text member in a Keras archive.
pub const KERAS_TEXT_BYTES: u64 = 64 << 20;

/// Maximum bytes of the index of a TensorFlow checkpoint, and of its keys, unless set by an option. That of 100,000 tensors has 10 MB.
pub const TENSORFLOW_INDEX_BYTES: u64 = 512 << 20;
/// Bytes charged per entry: the size of what is retained.
pub const TENSORFLOW_ENTRY_BYTES: u64 = 128;
/// Maximum expansion of a Snappy block: a copy of 64 bytes takes three.
pub const TENSORFLOW_SNAPPY_TIMES: u64 = 32;

/// Maximum bytes read of a Flax checkpoint in addition to its arrays, unless set by an option.
pub const FLAX_INDEX_BYTES: u64 = 256 << 20;
/// Maximum bytes of a key.
pub const FLAX_NAME_BYTES: u64 = 64 << 10;
/// Maximum bytes of a string or byte value that becomes an attribute.
pub const FLAX_VALUE_BYTES: u64 = 1 << 20;
/// Maximum nesting of maps and lists: attributes may not be deeper.
pub const FLAX_DEPTH: u32 = 120;

/// Maximum bytes read of a combined Paddle parameter file in addition to its elements, unless set by an option.
pub const PADDLE_INDEX_BYTES: u64 = 128 << 20;
/// Maximum bytes of the accompanying program, unless set by an option.
pub const PADDLE_PROGRAM_BYTES: u64 = 256 << 20;
/// Maximum bytes of a parameter's description, and of its name.
pub const PADDLE_DESC_BYTES: u64 = 4 << 10;
pub const PADDLE_NAME_BYTES: u64 = 64 << 10;
/// Maximum level-of-detail levels of a parameter. Real ones have none.
pub const PADDLE_LOD_LEVELS: u64 = 64;

/// Maximum bytes of all messages of an Arrow file without their data, unless set by an option. A batch of 100 columns takes 4 kB.
pub const ARROW_INDEX_BYTES: u64 = 256 << 20;
/// Maximum bytes of offsets that are read of an Arrow file, to learn whether its lists have one length: 16 million lists.
pub const ARROW_OFFSETS_BYTES: u64 = 64 << 20;
/// Maximum nesting of fields in an Arrow schema.
pub const ARROW_DEPTH: u32 = 64;
/// Maximum bytes of a name or path in an Arrow schema or a TFLite model.
pub const FLATBUFFER_NAME_BYTES: u64 = 64 << 10;
/// Maximum bytes of one metadata value of an Arrow file: pandas and extensions store JSON there.
pub const ARROW_METADATA_BYTES: u64 = 16 << 20;

/// Maximum bytes read of a TFLite model in addition to its data, unless set by an option.
pub const TFLITE_INDEX_BYTES: u64 = 256 << 20;
/// Maximum bytes of a metadata buffer of a TFLite model that becomes an attribute.
pub const TFLITE_METADATA_BYTES: u64 = 64 << 10;
