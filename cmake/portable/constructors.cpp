// Calls the constructors of the portable program (cmake/portable.cmake).
extern "C" {

// Until glibc 2.33 the program itself, not glibc, calls its constructors: by the function `init`
// that it passes to __libc_start_main(). The start files of later versions pass none. The linker
// replaces their call (--wrap).
using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);
extern Constructor __init_array_start[], __init_array_end[];
void _init();
int __real___libc_start_main(Main main, int argc, char** argv, Constructor init, void (*fini)(),
                             void (*rtld_fini)(), void* stack_end);

static void call_constructors(int argc, char** argv, char** environment) {
  _init();
  for (const Constructor* constructor = __init_array_start; constructor != __init_array_end;
       ++constructor) {
    (*constructor)(argc, argv, environment);
  }
}

int __wrap___libc_start_main(Main main, int argc, char** argv, Constructor, void (*fini)(),
                             void (*rtld_fini)(), void* stack_end) {
  return __real___libc_start_main(main, argc, argv, call_constructors, fini, rtld_fini, stack_end);
}

}  // extern "C"
