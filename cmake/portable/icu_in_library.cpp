// Debian's static ICU refers to glibc's time zone as only a program can. Kvik asks ICU for no time
// zone, so that the portable library has variables of its own.
extern "C" {
long __timezone = 0;
char utc[] = "UTC";
char* tzname[2] = {utc, utc};
}
