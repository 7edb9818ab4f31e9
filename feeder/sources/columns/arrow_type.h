// What the format of an Arrow type says: https://arrow.apache.org/docs/format/CDataInterface.html.
#pragma once

#include <cstdint>
#include <string>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/columns/arrow_abi.h"

namespace leat::feeder {

/// An Arrow type, as far as a field can be made of it. A value.
struct ArrowType {
  enum Kind : std::uint8_t {
    kNumbers,     ///< of `dtype`; also times, as integers
    kBits,        ///< bool
    kFixedBytes,  ///< fixed_size_binary of `extent` bytes
    kFixedList,   ///< fixed_size_list of `extent`
    kList,        ///< with offsets
    kBytes,       ///< binary or string, with offsets
    kViews,       ///< binary or string, as views
    kStruct,
    kRefused,
  };
  Kind kind = kRefused;
  DType dtype = DType::kUint8;
  std::int64_t extent = 0;
  bool is_wide = false;  ///< offsets of 64 bits

  /// The buffers that its arrays have; of views, at least so many.
  [[nodiscard]] std::int64_t buffers() const noexcept;
};

/// Reads a format. The storage of an extension type; of a dictionary, the codes.
[[nodiscard]] ArrowType arrow_type(const char* format);

/// A text for messages: "decimal (d:19,10)".
[[nodiscard]] std::string arrow_type_name(const char* format);

}  // namespace leat::feeder
