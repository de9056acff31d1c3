#include "backend/cuda/attention/attend.cuh"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/channels.cuh"
#include "backend/cuda/attention/merge.cuh"
#include "backend/cuda/attention/write.cuh"
#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/words.cuh"

namespace kvik::cuda {

const AttentionKernels kAttentionKernels = {
    .change_basis = kernel_of<BasisTask, change_basis>("change_basis"),
    .write = kernel_of<WriteTask, write_kv>("write_kv"),
    .write_channels = kernel_of<ChannelTask, write_channels>("write_channels"),
    .prepare_queries = kernel_of<QueryTask, prepare_queries>("prepare_queries"),
    .attend = {kernel_of<AttendTask, attend<FloatPages<false>>>("attend f32"),
               kernel_of<AttendTask, attend<FloatPages<true>>>("attend bf16"),
               kernel_of<AttendTask, attend<Int8Pages>>("attend int8"),
               kernel_of<AttendTask, attend<Int8Int4Pages>>("attend int8/int4"),
               kernel_of<AttendTask, attend<Int4Pages>>("attend int4")},
    .merge = kernel_of<MergeTask, merge>("merge"),
};

}  // namespace kvik::cuda
