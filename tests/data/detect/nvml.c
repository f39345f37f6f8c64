/* A small NVML: the entry points that envlock asks, for machines described by the environment.

   NVML_DRIVER   the driver's version
   NVML_GPUS     one letter a GPU: p plain, m split into two MIG devices, e split but empty, u unified memory, l lost
   NVML_INIT     the result of the first call, or `hang`, or `crash`
   Results are those of nvml.h: 0 success, 3 not supported, 6 not found, 15 GPU is lost. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { int gpu, part; } device;
typedef struct { unsigned long long total, free, used; } memory;

static device gpus[16], parts[16][2];

static const char *said(const char *name) { const char *value = getenv(name); return value ? value : ""; }
static char kind(const device *d) { return said("NVML_GPUS")[d->gpu]; }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!strcmp(said("NVML_INIT"), "hang")) for (;;) pause();
    if (!strcmp(said("NVML_INIT"), "crash")) raise(SIGSEGV);
    if (!strcmp(said("NVML_INIT"), "noise")) { puts("not JSON"); fflush(stdout); }
    return atoi(said("NVML_INIT"));
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "%s", said("NVML_DRIVER")); return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = strlen(said("NVML_GPUS")); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **found) {
    gpus[index] = (device){(int)index, -1};
    *found = &gpus[index];
    return kind(*found) == 'l' ? 15 : 0;
}

int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    *major = kind(d) == 'u' ? 12 : 8;
    *minor = kind(d) == 'u' ? 1 : 0;
    return 0;
}

int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *then) {
    *now = *then = kind(d) == 'm' || kind(d) == 'e';
    return kind(d) == 'u' ? 3 : 0;
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) { (void)d; *count = 7; return 0; }

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **found) {
    if (kind(d) != 'm' || index > 1) return 6;
    parts[d->gpu][index] = (device){d->gpu, (int)index};
    *found = &parts[d->gpu][index];
    return 0;
}

int nvmlDeviceGetName(device *d, char *text, unsigned size) {
    snprintf(text, size, "%s%s", kind(d) == 'u' ? "NVIDIA GB10" : "NVIDIA A100-SXM4-80GB", d->part < 0 ? "" : " MIG 3g.40gb");
    return 0;
}

int nvmlDeviceGetUUID(device *d, char *text, unsigned size) {
    if (d->part < 0) snprintf(text, size, "GPU-%d", d->gpu);
    else snprintf(text, size, "MIG-%d-%d", d->gpu, d->part);
    return 0;
}

int nvmlDeviceGetMemoryInfo(device *d, memory *found) {
    found->total = (d->part < 0 ? 81920ULL : 40192ULL) << 20;
    return kind(d) == 'u' ? 3 : 0;
}

const char *nvmlErrorString(int result) { (void)result; return "said by the library"; }
