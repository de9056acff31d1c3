// Defines the functions of newer glibc versions that the portable program and library use, by means
// of glibc 2.31 (cmake/portable.cmake).
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdint>

extern "C" {

// Since glibc 2.33, stat() and its variants are functions; earlier headers called these with the
// version of the struct.
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
int __fxstat(int version, int fd, struct stat* out);
int __fxstatat(int version, int folder, const char* path, struct stat* out, int flags);
constexpr int kStatVersion = 1;  // of x86-64

int stat(const char* path, struct stat* out) { return __xstat(kStatVersion, path, out); }
int lstat(const char* path, struct stat* out) { return __lxstat(kStatVersion, path, out); }
int fstat(int fd, struct stat* out) { return __fxstat(kStatVersion, fd, out); }
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return __fxstatat(kStatVersion, folder, path, out, flags);
}
int stat64(const char* path, struct stat64* out) {
  return stat(path, reinterpret_cast<struct stat*>(out));
}
int lstat64(const char* path, struct stat64* out) {
  return lstat(path, reinterpret_cast<struct stat*>(out));
}
int fstat64(int fd, struct stat64* out) { return fstat(fd, reinterpret_cast<struct stat*>(out)); }

// glibc 2.32: libstdc++ then counts references without atomic operations. 0 means "perhaps several
// threads".
char __libc_single_threaded = 0;

// glibc 2.36.
uint32_t arc4random() {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// glibc 2.35: libgcc finds the exception tables of a program counter by it.
int _dl_find_object(void* address, dl_find_object* out) {
  struct Search {
    uintptr_t address;
    dl_find_object* out;
  } search{reinterpret_cast<uintptr_t>(address), out};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    auto& [wanted, found] = *static_cast<Search*>(data);
    uintptr_t begin = UINTPTR_MAX, end = 0, frames = 0;
    bool is_inside = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      const uintptr_t from = info->dlpi_addr + segment.p_vaddr, to = from + segment.p_memsz;
      if (segment.p_type == PT_GNU_EH_FRAME) frames = from;
      if (segment.p_type != PT_LOAD) continue;
      begin = from < begin ? from : begin;
      end = to > end ? to : end;
      is_inside = is_inside || (wanted >= from && wanted < to);
    }
    if (!is_inside || frames == 0) return 0;
    *found = {};
    found->dlfo_map_start = reinterpret_cast<void*>(begin);
    found->dlfo_map_end = reinterpret_cast<void*>(end);
    found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
    return 1;
  };
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

}  // extern "C"
