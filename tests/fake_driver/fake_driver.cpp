#include <cstdlib>
#include <cstring>

// A libcuda.so.1 that is asked, and never does anything: what the CUDA runtime asks for before it
// asks for a device. It looks up all functions by cuGetProcAddress_v2(), then takes the driver's
// version, then cuInit(), then tables of functions that are NVIDIA's own; past them it wants proof
// that the driver is NVIDIA's, so that no fake comes further. By the environment:
//   KVIK_FAKE_DRIVER_VERSION  version that cuDriverGetVersion() returns; default 99000
//   KVIK_FAKE_DRIVER_INIT     error code of cuInit(); default 0
//   KVIK_FAKE_DRIVER_TABLES   error code of cuGetExportTable(); default 500, not found
//   KVIK_FAKE_DRIVER_LACKS    name of a missing function; all: every function is missing
//   KVIK_FAKE_DRIVER_ABORTS   if set, a process that loads the driver is aborted
namespace {

constexpr int kNotFound = 500;

int number(const char* name, int without) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : without;
}

[[gnu::constructor]] void loaded() {
  if (std::getenv("KVIK_FAKE_DRIVER_ABORTS")) std::abort();
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = number("KVIK_FAKE_DRIVER_VERSION", 99000);
  return 0;
}

int cuInit(unsigned) { return number("KVIK_FAKE_DRIVER_INIT", 0); }

int cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return number("KVIK_FAKE_DRIVER_TABLES", kNotFound);
}

int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* status) {
  const struct {
    const char* name;
    void* function;
  } functions[] = {
      {"cuDriverGetVersion", reinterpret_cast<void*>(cuDriverGetVersion)},
      {"cuInit", reinterpret_cast<void*>(cuInit)},
      {"cuGetExportTable", reinterpret_cast<void*>(cuGetExportTable)},
      {"cuGetProcAddress", reinterpret_cast<void*>(cuGetProcAddress_v2)},
  };
  const char* lacks = std::getenv("KVIK_FAKE_DRIVER_LACKS");
  *function = nullptr;
  for (const auto& f : functions) {
    if (std::strcmp(f.name, name) != 0) continue;
    if (lacks && (std::strcmp(lacks, "all") == 0 || std::strcmp(lacks, name) == 0)) continue;
    *function = f.function;
  }
  if (status) *status = *function ? 0 : 1;
  return *function ? 0 : kNotFound;
}

}  // extern "C"
