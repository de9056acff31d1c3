#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// True if all bytes of an element are significant, so that equal lists have equal bytes.
template <class T>
inline constexpr bool kIsDense = std::has_unique_object_representations_v<T>;
template <>
inline constexpr bool kIsDense<float> = true;

// Lists that operations pass to kernels, such as page tables and row numbers, in device memory. A
// list gets its address when it is put, equal lists the same address within a step, and its
// contents are there after bring(). Lists of a step are placed from the beginning: in similar steps
// each list has the same address, and only differences are transferred, in one copy. One thread.
class Tables {
 public:
  explicit Tables(Device& device) : device_(device) {}
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // Launches from now on do not need lists that were put before.
  void begin_step();
  template <class T>
  const T* put(std::span<const T> list) {
    static_assert(kIsDense<T>);
    return reinterpret_cast<const T*>(put_bytes(std::as_bytes(list)));
  }
  Result<void> bring();
  size_t n_lists() const { return lists_.size(); }

 private:
  static constexpr size_t kPieceBytes = 256u << 10;  // at least
  static constexpr size_t kAlignment = 16;           // of lists; also the unit of comparison

  // Lists are stored in pieces, which never move.
  struct Piece {
    std::byte* on_device = nullptr;
    std::vector<std::byte> wanted, there;  // wanted contents, and those on the device
    size_t n_used = 0, n_brought = 0;
  };
  struct List {
    size_t piece, first, n_bytes;
  };
  const std::byte* put_bytes(std::span<const std::byte> bytes);
  size_t piece_with_room(size_t n_bytes);
  Result<void> bring(Piece& piece);

  Device& device_;
  std::vector<Piece> pieces_;
  std::vector<List> lists_;
};

}  // namespace kvik::cuda
