"""Libraries that a test loads into the program before its own, compiled from a few lines of C."""
import hashlib
import os
import subprocess
import tempfile

# Raises the signal $RAISE while the libraries are being initialized.
RAISES_EARLY = """
#include <signal.h>
#include <stdlib.h>
__attribute__((constructor)) static void early(void) { raise(atoi(getenv("RAISE"))); }
"""

# fsync() of a file below $STALLED, and a listing of a folder below it, never return: a file server that is gone.
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

# The time of day is off by the seconds that the file $CLOCK_STEP holds as a number of eight bytes: a clock that is set while the program runs.
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


def library(source):
    """The path of a shared library, which is compiled once."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f"kvik-test-preload-{os.getuid()}-{digest}.so")
    if not os.path.exists(path):
        unfinished = f"{path}.{os.getpid()}"
        subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-o", unfinished, "-", "-ldl"], input=source.encode(), check=True)
        os.replace(unfinished, path)
    return path
