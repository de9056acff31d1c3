"""Compiles small C libraries that tests preload into the program."""
import hashlib
import os
import subprocess
import tempfile

# Raises the signal $RAISE while libraries are being initialized.
RAISES_EARLY = """
#include <signal.h>
#include <stdlib.h>
__attribute__((constructor)) static void early(void) { raise(atoi(getenv("RAISE"))); }
"""

# fsync() of a file in $STALLED and listing a folder in it never return, as with an unreachable file server.
STALLS = """
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void stall(const char* path) {
  const char* below = getenv("STALLED");
  if (below && strncmp(path, below, strlen(below)) == 0) for (;;) pause();
}
int fsync(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  stall(path);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
DIR* opendir(const char* path) {
  stall(path);
  return ((DIR * (*)(const char*))dlsym(RTLD_NEXT, "opendir"))(path);
}
"""

# Shifts the time of day by the number of seconds in the file $CLOCK_STEP (an eight-byte number), as if the clock were set while the program runs.
STEPS_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long* step;
__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("CLOCK_STEP");
  int fd = path ? open(path, O_RDONLY) : -1;
  void* there = fd < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
  if (there != MAP_FAILED) step = there;
}
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int got = real(clock, now);
  if (step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
  return got;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return 0;
}
"""

# Fails allocations at random like a system without memory: the program's new_handler is called first. The file $REFUSED holds the number of failures
# per million as a four-byte number.
REFUSES_MEMORY = """
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cstdlib>
#include <new>
static volatile uint32_t* refused = nullptr;
__attribute__((constructor)) static void begin() {
  const char* path = getenv("REFUSED");
  const int fd = path ? open(path, O_RDONLY) : -1;
  void* const there = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(uint32_t), PROT_READ, MAP_SHARED, fd, 0);
  if (there != MAP_FAILED) refused = static_cast<uint32_t*>(there);
}
static bool is_refused() {
  static thread_local uint64_t state = reinterpret_cast<uintptr_t>(&state) | 1;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return refused && state % 1000000 < *refused;
}
static void* take(size_t n, size_t alignment) {
  for (;; std::get_new_handler()()) {
    void* const memory = is_refused() ? nullptr : aligned_alloc(alignment, (n + alignment) / alignment * alignment);
    if (memory) return memory;
    if (!std::get_new_handler()) throw std::bad_alloc();
  }
}
void* operator new(size_t n) { return take(n, 16); }
void* operator new[](size_t n) { return take(n, 16); }
void* operator new(size_t n, std::align_val_t alignment) { return take(n, static_cast<size_t>(alignment)); }
void* operator new[](size_t n, std::align_val_t alignment) { return take(n, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
"""


def library(source, language="c"):
    """Returns the path of a shared library, which is compiled once."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f"kvik-test-preload-{os.getuid()}-{digest}.so")
    if not os.path.exists(path):
        unfinished = f"{path}.{os.getpid()}"
        subprocess.run(["g++", "-x", language, "-O1", "-shared", "-fPIC", "-o", unfinished, "-", "-ldl"], input=source.encode(), check=True)
        os.replace(unfinished, path)
    return path
