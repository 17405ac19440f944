/* hip_host.h: what HIP text needs to be C++ for this computer: fake_hip.c puts it in front of a program.
 *
 * Owns:  the chip's builtins over the calls of fibers.h; hip_thunk, which takes a kernel's arguments out of the bytes that
 *        a launch packs, as the chip's calling convention lays them out: each at a multiple of its own alignment.
 * Rules: C++14, as hiprtc compiles. A builtin that is not here is not used by any kernel: add it when one does.
 */
#include "../fibers.h"

static const fibers_calls *hip_calls;
#define HIP_EXPORT extern "C" __attribute__((visibility("default")))
HIP_EXPORT void hip_host_begin(const fibers_calls *calls) { hip_calls = calls; }

#define __builtin_amdgcn_workitem_id_x() (hip_calls->self()->local[0])
#define __builtin_amdgcn_workitem_id_y() (hip_calls->self()->local[1])
#define __builtin_amdgcn_workitem_id_z() (hip_calls->self()->local[2])
#define __builtin_amdgcn_workgroup_id_x() (hip_calls->self()->group[0])
#define __builtin_amdgcn_workgroup_id_y() (hip_calls->self()->group[1])
#define __builtin_amdgcn_workgroup_id_z() (hip_calls->self()->group[2])
#define __builtin_amdgcn_wavefrontsize() ((unsigned)__AMDGCN_WAVEFRONT_SIZE)
#define __builtin_amdgcn_fence(order, scope) ((void)0) /* fibers of a group take turns */
#define __builtin_amdgcn_s_barrier() hip_calls->barrier(__LINE__)
#define __builtin_amdgcn_wave_barrier() hip_calls->wave_barrier(__LINE__)
/* The value of the lane whose number is a / 4; a lane that does not exist gives 0. */
#define __builtin_amdgcn_ds_bpermute(a, value) hip_bpermute(a, value, __LINE__)
static inline int hip_bpermute(int a, int value, int line) {
    const uint64_t *all = hip_calls->exchange((uint64_t)(unsigned)value, line);
    unsigned lane = (unsigned)a / 4 % __AMDGCN_WAVEFRONT_SIZE;
    return lane < hip_calls->self()->lanes ? (int)(unsigned)all[lane] : 0;
}
#define hip_local(bytes) hip_calls->local(({ static const char key = 0; &key; }), bytes) /* memory of the group */

/* In the order of the parameters. */
struct hip_arguments {
    const char *bytes;
    size_t at;
    template <typename T> T next() {
        T value;
        at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        __builtin_memcpy(&value, bytes + at, sizeof value);
        at += sizeof value;
        return value;
    }
};
template <typename T> constexpr size_t hip_sum(size_t at) {
    return (at + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T);
}
template <typename F, F f> struct hip_thunk;
template <typename... A, void (*f)(A...)> struct hip_thunk<void (*)(A...), f> {
    struct call { call(A... a) { f(a...); } }; /* braces fix the order in which arguments are taken */
    static void run(void *const *args, const fibers_item *) {
        hip_arguments from = {(const char *)args[0], 0};
        (void)from;
        call{from.template next<A>()...};
    }
    static size_t bytes() {
        size_t at = 0;
        const int each[] = {0, (at = hip_sum<A>(at), 0)...};
        (void)each;
        return at;
    }
};
struct hip_kernel {
    const char *name;
    void (*run)(void *const *args, const fibers_item *me);
    size_t (*bytes)(); /* of its arguments */
    unsigned most;     /* work-items of a group */
};
#define HIP_KERNEL(f, most) {#f, hip_thunk<decltype(&f), &f>::run, hip_thunk<decltype(&f), &f>::bytes, most},
HIP_EXPORT const hip_kernel hip_kernels[]; /* its rows follow the program */
