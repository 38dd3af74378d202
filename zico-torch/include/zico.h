/* zico: several training jobs share one budget of accelerator memory.
 *
 * Generated from zico-torch/src by cbindgen; `ZICO_WRITE_HEADER=1 cargo test -p zico-torch --test header` writes it
 * anew.
 *
 * All functions may be called from any thread at any time. Each returns ZICO_OK or says by its status what
 * kind of failure it was; zico_last_error has a sentence about it. Handles are numbers and not pointers:
 * one that is stale or wrong is refused. In a child made by fork every call is refused with ZICO_FORKED.
 */

#ifndef ZICO_H
#define ZICO_H

#include <stddef.h>
#include <stdint.h>

/**
 * What came of a call. `zico_last_error` says it in words.
 */
typedef enum ZicoStatus {
  /**
   * It was done.
   */
  ZICO_OK = 0,
  /**
   * An argument cannot be: a null pointer, a name that is not UTF-8, a budget without a region.
   */
  ZICO_INVALID = 1,
  /**
   * The handle is none, or none any more.
   */
  ZICO_BAD_HANDLE = 2,
  /**
   * No live block begins at the address.
   */
  ZICO_NOT_LIVE = 3,
  /**
   * Not now; asking again later may help.
   */
  ZICO_BUSY = 4,
  /**
   * The memory cannot be had, and waiting does not help.
   */
  ZICO_OUT_OF_MEMORY = 5,
  /**
   * The job is in no iteration, or already in one.
   */
  ZICO_NOT_NOW = 6,
  /**
   * This machine or device cannot do that.
   */
  ZICO_UNSUPPORTED = 7,
  /**
   * The device refused, or is lost.
   */
  ZICO_DEVICE = 8,
  /**
   * The process was forked from the one that has the memory.
   */
  ZICO_FORKED = 9,
  /**
   * A defect of zico. Nothing is known of what was done.
   */
  ZICO_INTERNAL = 10,
  /**
   * There is no broker, or it cannot be reached, or it lets nobody in.
   */
  ZICO_NO_BROKER = 11,
} ZicoStatus;

/**
 * A pool: memory of one device under one budget. 0 is none.
 */
typedef uint64_t ZicoPool;

/**
 * What a pool holds, in bytes.
 */
typedef struct ZicoPoolStats {
  /**
   * The budget, or what it is to be once memory is free: whole regions.
   */
  uint64_t budget;
  /**
   * What the pool holds of the device.
   */
  uint64_t held;
  /**
   * By how much more than the budget it may still hold, after the budget was lowered: what is
   * held, or was promised to iterations that run.
   */
  uint64_t pending;
} ZicoPoolStats;

/**
 * A job: one tenant of a pool. 0 is none.
 */
typedef uint64_t ZicoJob;

/**
 * What a job has done, in bytes, counts and nanoseconds.
 */
typedef struct ZicoJobStats {
  /**
   * Bytes of live blocks, as asked for.
   */
  uint64_t requested;
  /**
   * The most that these were: since the job joined, or since `zico_reset_peaks`.
   */
  uint64_t requested_peak;
  /**
   * Bytes of live blocks, rounded up to multiples of 512.
   */
  uint64_t allocated;
  /**
   * The most that these were, likewise.
   */
  uint64_t allocated_peak;
  /**
   * All bytes ever allocated, rounded up likewise.
   */
  uint64_t allocated_total;
  /**
   * All bytes ever freed, rounded up likewise.
   */
  uint64_t freed_total;
  /**
   * Bytes charged to the job: whole regions, with what the device has yet to pass.
   */
  uint64_t reserved;
  /**
   * The most that these were, likewise; after `zico_reset_peaks` at least what is known of it.
   */
  uint64_t reserved_peak;
  /**
   * Allocations that were made.
   */
  uint64_t allocations;
  /**
   * Blocks that were freed.
   */
  uint64_t frees;
  /**
   * The most blocks that were live at one time: since the job joined, or since
   * `zico_reset_peaks`.
   */
  uint64_t blocks_peak;
  /**
   * Allocations that were refused for good.
   */
  uint64_t refusals;
  /**
   * Iterations that have begun.
   */
  uint64_t iterations;
  /**
   * For how many nanoseconds threads have waited to begin an iteration.
   */
  uint64_t waited_to_begin;
  /**
   * For how many nanoseconds threads have waited for memory.
   */
  uint64_t waited_for_memory;
} ZicoJobStats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What the last call on this thread that failed has to say: one sentence or some, in English. It
 * is never null, and stays until another call on this thread fails. Not to be freed.
 */
const char *zico_last_error(void);

/**
 * The status of the last call on this thread that failed, for calls that do not return one;
 * ZICO_OK if none has.
 */
enum ZicoStatus zico_last_status(void);

/**
 * The version of zico: "0.1.0". Not to be freed.
 */
const char *zico_version(void);

/**
 * Opens a pool of at most `budget` bytes of this machine's own memory, of which it takes
 * `capacity` for all there is; 0 takes what the machine has. Raises the number of files that the
 * process may open as far as it may, because each region is one.
 *
 * # Safety
 * `pool` points to a handle that may be written, or is null, which is refused.
 */
enum ZicoStatus zico_open_host(uint64_t budget, uint64_t capacity, ZicoPool *pool);

/**
 * Opens a pool of at most `budget` bytes of the CUDA device with this number, counted from 0, in
 * its primary context.
 *
 * # Safety
 * As `zico_open_host`.
 */
enum ZicoStatus zico_open_cuda(uint32_t device, uint64_t budget, ZicoPool *pool);

/**
 * Closes a pool: no more jobs can join. Those that have stay, and the pool goes with the last of
 * them.
 */
enum ZicoStatus zico_close(ZicoPool pool);

/**
 * Changes a pool's budget, in bytes. A lower one is reached as memory becomes free.
 */
enum ZicoStatus zico_set_budget(ZicoPool pool, uint64_t budget);

/**
 * Gives memory that no job has back to the device. What is needed again is created anew.
 */
enum ZicoStatus zico_trim(ZicoPool pool);

/**
 * What a pool holds.
 *
 * # Safety
 * `stats` points to statistics that may be written, or is null, which is refused.
 */
enum ZicoStatus zico_pool_stats(ZicoPool pool, struct ZicoPoolStats *stats);

/**
 * Lets a job in. `name` is UTF-8, or null for a name of the pool's choice. Of jobs that wait those
 * with a higher `priority` go first. `stream` is the stream on which the job's work is enqueued: a
 * `cudaStream_t` on CUDA, null for the default stream; on host memory it has no meaning.
 *
 * # Safety
 * `name` is null or ends with a zero. `stream` is one of the device's primary context, and lives
 * until the job has left. `job` points to a handle that may be written, or is null, which is
 * refused.
 */
enum ZicoStatus zico_join(ZicoPool pool,
                          const char *name,
                          int32_t priority,
                          void *stream,
                          ZicoJob *job);

/**
 * As `zico_join`, for a job that takes turns with others: what they keep in all may be more than
 * the budget. Where it has to wait to begin an iteration or for memory, and others wait for its
 * room, all that it has goes to memory of the host, and comes back before the call returns. A turn
 * lasts for an iteration and `slice` nanoseconds at least: let it be ten times of what copying the
 * job's memory takes, or more. While one thread is in such a call no other may touch the job's
 * blocks, nor enqueue work that does.
 *
 * # Safety
 * As `zico_join`.
 */
enum ZicoStatus zico_join_turns(ZicoPool pool,
                                const char *name,
                                int32_t priority,
                                uint64_t slice,
                                void *stream,
                                ZicoJob *job);

/**
 * As `zico_join`, or as `zico_join_turns` if `slice` is not zero, for a job whose iterations may
 * be interrupted: where one waits for memory and nothing else can go on, all that the job has goes
 * to memory of the host, so that another job goes on, and comes back before the call returns.
 * Without that one of two iterations that have outgrown what was expected of them is told that
 * there is no memory. While one thread waits in an allocation no other may touch the job's blocks,
 * nor enqueue work that does; other streams that use them afterwards wait for the job's own.
 *
 * # Safety
 * As `zico_join`.
 */
enum ZicoStatus zico_join_interruptible(ZicoPool pool,
                                        const char *name,
                                        int32_t priority,
                                        uint64_t slice,
                                        void *stream,
                                        ZicoJob *job);

/**
 * Makes a job leave. All that it has is given up; nothing may use its blocks from now on. `live`
 * gets the number of blocks that were not freed; it may be null.
 *
 * # Safety
 * `live` is null or points to a number that may be written.
 */
enum ZicoStatus zico_leave(ZicoJob job, uint64_t *live);

/**
 * Begins an iteration. Waits until it may start.
 */
enum ZicoStatus zico_begin(ZicoJob job);

/**
 * Ends the iteration that runs. None begins until `zico_begin` or `zico_mark`.
 */
enum ZicoStatus zico_end(ZicoJob job);

/**
 * Marks the end of an iteration: the one that runs, if any, is over, but for what is freed from
 * here on, and the next one begins with the job's next allocation, which may have to wait for
 * that. For frameworks that know when an iteration has ended, and not when the next one begins.
 */
enum ZicoStatus zico_mark(ZicoJob job);

/**
 * Allocates `bytes` bytes, aligned to 512, to be used on `stream`, and waits until they can be
 * had. No bytes are a null pointer. A block on a stream other than the job's own is ready on that
 * stream after what is enqueued on the job's stream now.
 *
 * # Safety
 * `stream` is as for `zico_join`. `block` points to a pointer that may be written, or is null,
 * which is refused.
 */
enum ZicoStatus zico_alloc(ZicoJob job, uint64_t bytes, void *stream, void **block);

/**
 * As `zico_alloc`, but never waits: ZICO_BUSY if it would have to.
 *
 * # Safety
 * As `zico_alloc`.
 */
enum ZicoStatus zico_try_alloc(ZicoJob job, uint64_t bytes, void *stream, void **block);

/**
 * Frees a block of any job, on any thread. It never waits. All work that uses the block has been
 * enqueued. A null pointer is nothing to do.
 */
enum ZicoStatus zico_dealloc(void *block);

/**
 * Says that work enqueued on `stream` uses a block, or will until it is freed. The block's memory
 * is used again only after that work.
 *
 * # Safety
 * `stream` is as for `zico_join`.
 */
enum ZicoStatus zico_record_use(void *block, void *stream);

/**
 * The bytes asked for with the live block that begins at an address; 0 if none does. In a forked
 * child: those of a block that the parent had at the fork.
 */
uint64_t zico_block_size(const void *block);

/**
 * Whether this process is a child, made by fork from one that had opened a pool: 0 or 1. What its
 * parent had allocated on host memory it has as a copy of its own, which it may read and write and
 * which stays; it can allocate nothing here, and freeing is nothing to do.
 */
int zico_is_forked(void);

/**
 * What a job has allocated, and what it has waited for.
 *
 * # Safety
 * `stats` points to statistics that may be written, or is null, which is refused.
 */
enum ZicoStatus zico_job_stats(ZicoJob job, struct ZicoJobStats *stats);

/**
 * Counts the peaks of a job's statistics anew, from what is there now.
 */
enum ZicoStatus zico_reset_peaks(ZicoJob job);

/**
 * Connects to the broker of this machine's own memory that serves at `socket`: a pool whose jobs
 * share the broker's budget with those of all other processes. `capacity` is as for
 * `zico_open_host`.
 *
 * # Safety
 * `socket` is null, which is refused, or ends with a zero. `pool` points to a handle that may be
 * written, or is null, which is refused.
 */
enum ZicoStatus zico_connect_host(const char *socket, uint64_t capacity, ZicoPool *pool);

/**
 * Connects to the broker of a CUDA device that serves at `socket`. `device` is this process's
 * number for it.
 *
 * # Safety
 * As `zico_connect_host`.
 */
enum ZicoStatus zico_connect_cuda(const char *socket, uint32_t device, ZicoPool *pool);

/**
 * Serves as the broker of this machine's own memory, `budget` bytes of it for all processes that
 * connect to `socket`. Returns when the descriptor `stop` can be read from, or hangs up; a
 * negative one is none, and it serves until the process ends.
 *
 * # Safety
 * `socket` is null, which is refused, or ends with a zero. `stop` is open, or negative.
 */
enum ZicoStatus zico_serve_host(const char *socket, uint64_t budget, int stop);

/**
 * Serves as the broker of the CUDA device with this number, counted from 0, as `zico_serve_host`
 * does of the machine's own memory. Makes no context on the device. One process of a machine
 * serves a device.
 *
 * # Safety
 * As `zico_serve_host`.
 */
enum ZicoStatus zico_serve_cuda(const char *socket, uint32_t device, uint64_t budget, int stop);

/**
 * As `zico_serve_host`, but returns when nobody needs the broker any more: no process has a shared
 * lock (flock) on the file `SOCKET.users`, and there is no job. The descriptor `listening` gets a
 * byte, 1, when it listens; a negative one is none. The process is to end soon after the return:
 * until then it has the file locked, so that whoever locks it next finds no broker that ends.
 *
 * # Safety
 * As `zico_serve_host`; `listening` is open, or negative.
 */
enum ZicoStatus zico_serve_host_while_used(const char *socket, uint64_t budget, int listening);

/**
 * As `zico_serve_cuda`, but returns when nobody needs the broker any more, as
 * `zico_serve_host_while_used` does.
 *
 * # Safety
 * As `zico_serve_host_while_used`.
 */
enum ZicoStatus zico_serve_cuda_while_used(const char *socket,
                                           uint32_t device,
                                           uint64_t budget,
                                           int listening);

/**
 * What all jobs of the broker that serves at `socket` hold together, whatever its device.
 * ZICO_NO_BROKER if none serves there.
 *
 * # Safety
 * `socket` is null, which is refused, or ends with a zero. `stats` points to statistics that may
 * be written, or is null, which is refused.
 */
enum ZicoStatus zico_broker_stats(const char *socket, struct ZicoPoolStats *stats);

/**
 * A table of the jobs of the broker that serves at `socket`, for people. As much as there is room
 * for is written to `text`, with a zero at its end, and the length of all of it (without the zero)
 * to `length`. ZICO_NO_BROKER if no broker serves there.
 *
 * # Safety
 * `socket` is null, which is refused, or ends with a zero. `text` points to `capacity` bytes that
 * may be written, or is null, and then only the length is said. `length` points to a number that
 * may be written, or is null, which is refused.
 */
enum ZicoStatus zico_broker_report(const char *socket,
                                   char *text,
                                   uint64_t capacity,
                                   uint64_t *length);

/**
 * Makes a job the one for which `zico_malloc` allocates, on all threads that have none of their
 * own (`zico_use`). 0 is none.
 */
enum ZicoStatus zico_use_everywhere(ZicoJob job);

/**
 * Makes a job the one for which `zico_malloc` allocates on this thread. 0 is none of its own.
 */
enum ZicoStatus zico_use(ZicoJob job);

/**
 * Allocates for the job in use. The form that frameworks ask for: null for no bytes, and null
 * where it failed, with the reason in `zico_last_error`; it waits where it has to, on locks of
 * zico alone. A null pointer for some bytes also means that no job is in use.
 *
 * `device` is not looked at: a job has one device.
 *
 * # Safety
 * `stream` is as for `zico_join`.
 */
void *zico_malloc(size_t size, int _device, void *stream);

/**
 * Frees a block that `zico_malloc` has allocated, on any thread, never waiting. What is no live
 * block is left alone, and so is everything in a forked child, whose parent has the memory.
 *
 * `size`, `device` and `stream` are not looked at: zico knows them.
 */
void zico_free(void *block, size_t _size, int _device, void *_stream);

/**
 * Says to the job in use that an iteration has ended: `zico_mark`.
 */
enum ZicoStatus zico_mark_current(void);

/**
 * What is nobody's goes back to the device: what `torch.cuda.empty_cache` asks for.
 */
void zico_empty_cache(void);

/**
 * Records what a job does with memory from now on, as a trace that the program `zico` reads, in
 * the file `path`, which is written over: as the recording grows, and at `zico_record_end`. `name`
 * is the trace's, in UTF-8. At most two million events are recorded.
 *
 * # Safety
 * `path` and `name` are null, which is refused, or end with a zero.
 */
enum ZicoStatus zico_record(ZicoJob job, const char *path, const char *name);

/**
 * Ends the recording of a job, and writes it. ZICO_NOT_NOW if no iteration has ended: then there
 * is nothing to write.
 */
enum ZicoStatus zico_record_end(ZicoJob job);

/**
 * Takes all that a job has to memory of the host, and gives its room on the device to others until
 * `zico_resume`. Waits until the device has made the copies. An iteration that runs ends, and the
 * next one is due. Blocks keep their addresses and their contents; between the two calls nothing
 * may touch them, neither this process nor work on any stream, and nothing can be allocated. They
 * can be freed. All work that uses them has been enqueued on streams that zico knows of, or is
 * done. `bytes` gets what has gone; it may be null.
 *
 * The job has a return ticket: nobody can take its room for good. Where it could not come back, it
 * does not go, and the status is ZICO_OUT_OF_MEMORY.
 *
 * # Safety
 * `bytes` is null or points to a number that may be written.
 */
enum ZicoStatus zico_suspend(ZicoJob job, uint64_t *bytes);

/**
 * The same, but for some blocks, each told by an address within it. The `keeps` blocks in `keep`
 * stay where they are, and may be used meanwhile. Of the `discards` blocks in `discard` the
 * contents are lost, and not copied. A block in both is kept; addresses of no block of the job
 * count for nothing. Memory goes by whole regions of the pool: what lies in one with a block that
 * stays, stays as well, and what lies in one with a block that is copied is copied. If all stays
 * the job is not suspended. A job that takes turns (`zico_join_turns`) keeps no block:
 * ZICO_INVALID.
 *
 * # Safety
 * `keep` and `discard` point to so many addresses, or are null where there are none. `bytes` is
 * null or points to a number that may be written.
 */
enum ZicoStatus zico_suspend_with(ZicoJob job,
                                  const void *const *keep,
                                  size_t keeps,
                                  const void *const *discard,
                                  size_t discards,
                                  uint64_t *bytes);

/**
 * Brings a suspended job back: all its memory, at its addresses, as it was. Waits until there is
 * room for it. Work that is enqueued on the job's stream from then on finds it; other streams have
 * to be ordered after that. A job that is not suspended is back already.
 */
enum ZicoStatus zico_resume(ZicoJob job);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZICO_H */
