/* A program that uses zico as a runtime in C would: run by tests/program.rs, under a checker of memory where
 * there is one. It ends with 0, or says which line expected something else. */
#include "zico.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

#define EXPECT(condition)                                                                     \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "line %d: not so: %s (last error: %s)\n", __LINE__, #condition,         \
              zico_last_error());                                                             \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

#define OK(call) EXPECT((call) == ZICO_OK)

static ZicoPool open_pool(uint64_t budget) {
  ZicoPool pool = 0;
  OK(zico_open_host(budget, 256 * MIB, &pool));
  EXPECT(pool != 0);
  return pool;
}

static ZicoJob join(ZicoPool pool, const char *name) {
  ZicoJob job = 0;
  OK(zico_join(pool, name, 0, NULL, &job));
  return job;
}

/* What a caller gets wrong is an error with a sentence. */
static void misuse(void) {
  ZicoPool pool = 0;
  EXPECT(zico_open_host(64 * MIB, 0, NULL) == ZICO_INVALID);
  EXPECT(strstr(zico_last_error(), "null"));
  EXPECT(zico_open_host(1, 0, &pool) == ZICO_INVALID);
  EXPECT(strstr(zico_last_error(), "holds no region"));
  EXPECT(zico_open_host(2 * MIB, MIB, &pool) == ZICO_INVALID);
  EXPECT(strstr(zico_last_error(), "more than the device's"));
  EXPECT(zico_begin(0) == ZICO_BAD_HANDLE);
  EXPECT(strstr(zico_last_error(), "never was a job"));

  pool = open_pool(64 * MIB);
  ZicoJob job = 0;
  EXPECT(zico_join(pool, "\xff", 0, NULL, &job) == ZICO_INVALID);
  EXPECT(zico_join(pool, "a", 0, NULL, NULL) == ZICO_INVALID);
  EXPECT(zico_join(pool + 1000, "a", 0, NULL, &job) == ZICO_BAD_HANDLE);
  job = join(pool, "a");
  EXPECT(zico_begin(pool) == ZICO_BAD_HANDLE);
  EXPECT(strstr(zico_last_error(), "no longer a job"));
  EXPECT(zico_end(job) == ZICO_NOT_NOW);
  OK(zico_begin(job));
  EXPECT(zico_begin(job) == ZICO_NOT_NOW);
  OK(zico_end(job));

  void *block = NULL;
  EXPECT(zico_alloc(job, 1, NULL, NULL) == ZICO_INVALID);
  OK(zico_alloc(job, 1000, NULL, &block));
  EXPECT(zico_dealloc((char *)block + 512) == ZICO_NOT_LIVE);
  EXPECT(zico_record_use((char *)block + 512, NULL) == ZICO_NOT_LIVE);
  OK(zico_record_use(block, (void *)1));
  OK(zico_dealloc(block));
  EXPECT(zico_dealloc(block) == ZICO_NOT_LIVE);
  OK(zico_dealloc(NULL));
  block = &pool;
  OK(zico_alloc(job, 0, NULL, &block));
  EXPECT(block == NULL);

  uint64_t live = 7;
  OK(zico_alloc(job, 5 * MIB, NULL, &block));
  OK(zico_leave(job, &live));
  EXPECT(live == 1);
  EXPECT(zico_dealloc(block) == ZICO_NOT_LIVE);
  EXPECT(zico_leave(job, NULL) == ZICO_BAD_HANDLE);
  OK(zico_close(pool));
  EXPECT(zico_close(pool) == ZICO_BAD_HANDLE);
}

/* The budget is hard, the refusal says who has what, and the program goes on after it. */
static void out_of_memory(void) {
  ZicoPool pool = open_pool(16 * MIB);
  ZicoJob job = join(pool, "greedy");
  void *first = NULL, *second = NULL;
  OK(zico_alloc(job, 12 * MIB, NULL, &first));
  memset(first, 1, 12 * MIB);
  EXPECT(zico_alloc(job, 8 * MIB, NULL, &second) == ZICO_OUT_OF_MEMORY);
  EXPECT(second == NULL);
  EXPECT(strstr(zico_last_error(), "greedy asked 8 MiB"));
  EXPECT(strstr(zico_last_error(), "budget 16 MiB"));
  OK(zico_dealloc(first));
  OK(zico_alloc(job, 8 * MIB, NULL, &second));
  memset(second, 2, 8 * MIB);

  ZicoPoolStats held;
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.budget == 16 * MIB && held.held <= 16 * MIB && held.held >= 8 * MIB);
  ZicoJobStats stats;
  OK(zico_job_stats(job, &stats));
  EXPECT(stats.allocations == 2 && stats.frees == 1 && stats.refusals == 1);
  EXPECT(stats.requested == 8 * MIB && stats.requested_peak == 12 * MIB);
  EXPECT(stats.allocated_total == 20 * MIB && stats.freed_total == 12 * MIB);
  OK(zico_dealloc(second));
  OK(zico_trim(pool));
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.held == 0);
  OK(zico_leave(job, NULL));

  OK(zico_set_budget(pool, 8 * MIB));
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.budget == 8 * MIB && held.pending == 0);
  job = join(pool, "next");
  EXPECT(zico_try_alloc(job, 12 * MIB, NULL, &second) == ZICO_OUT_OF_MEMORY);
  OK(zico_leave(job, NULL));
  OK(zico_close(pool));
}

/* Marks: the next iteration begins with the next allocation, and not before. */
static void marks(void) {
  ZicoPool pool = open_pool(64 * MIB);
  ZicoJob job = join(pool, "marks");
  ZicoJobStats stats;
  void *weights = NULL, *wave = NULL;
  OK(zico_alloc(job, MIB, NULL, &weights));
  OK(zico_mark(job));
  for (uint64_t turn = 0; turn < 5; turn++) {
    OK(zico_job_stats(job, &stats));
    EXPECT(stats.iterations == turn);
    OK(zico_alloc(job, 8 * MIB, NULL, &wave));
    OK(zico_job_stats(job, &stats));
    EXPECT(stats.iterations == turn + 1);
    memset(wave, (int)turn, 8 * MIB);
    OK(zico_dealloc(wave));
    OK(zico_mark(job));
    OK(zico_mark(job));
  }
  OK(zico_dealloc(weights));
  OK(zico_leave(job, NULL));
  OK(zico_close(pool));
}

/* Of a job that goes one block stays and is used, and one comes back with anything in it. */
static void goes_in_part(void) {
  ZicoPool pool = open_pool(16 * MIB);
  ZicoJob job = join(pool, "away"), other = join(pool, "here"), turns = 0;
  unsigned char *blocks[3] = {NULL, NULL, NULL};
  void *more = NULL;
  uint64_t gone = 1;
  for (int i = 0; i < 3; i++) {
    OK(zico_alloc(job, 4 * MIB, NULL, (void **)&blocks[i]));
    memset(blocks[i], i, 4 * MIB);
  }
  const void *all[] = {blocks[0], blocks[1], blocks[2]};
  const void *keep[] = {blocks[0] + 5, &gone}, *discard[] = {blocks[0], blocks[2]};
  EXPECT(zico_suspend_with(job, NULL, 1, NULL, 0, &gone) == ZICO_INVALID);
  OK(zico_suspend_with(job, all, 3, NULL, 0, &gone));
  EXPECT(gone == 0);
  OK(zico_suspend_with(job, keep, 2, discard, 2, &gone));
  EXPECT(gone == 8 * MIB);
  OK(zico_begin(other));
  OK(zico_alloc(other, 12 * MIB, NULL, &more));
  memset(more, 8, 12 * MIB);
  for (uint64_t at = 0; at < 4 * MIB; at += 4093)
    blocks[0][at] += 9;
  OK(zico_dealloc(more));
  OK(zico_end(other));
  OK(zico_resume(job));
  for (uint64_t at = 0; at < 4 * MIB; at += 4093)
    EXPECT(blocks[0][at] == 9 && blocks[1][at] == 1);
  memset(blocks[2], 2, 4 * MIB);
  for (int i = 0; i < 3; i++)
    OK(zico_dealloc(blocks[i]));
  OK(zico_join_turns(pool, "turns", 0, 1000000, NULL, &turns));
  OK(zico_alloc(turns, MIB, NULL, (void **)&blocks[0]));
  EXPECT(zico_suspend_with(turns, keep, 2, NULL, 0, NULL) == ZICO_OK);
  OK(zico_resume(turns));
  keep[0] = blocks[0];
  EXPECT(zico_suspend_with(turns, keep, 1, NULL, 0, NULL) == ZICO_INVALID);
  OK(zico_leave(turns, NULL));
  OK(zico_join_interruptible(pool, "may be interrupted", 0, 0, NULL, &turns));
  OK(zico_alloc(turns, MIB, NULL, (void **)&blocks[0]));
  OK(zico_dealloc(blocks[0]));
  OK(zico_leave(turns, NULL));
  OK(zico_leave(job, NULL));
  OK(zico_leave(other, NULL));
  OK(zico_close(pool));
}

/* A job goes to the host, another one has its room, and it comes back as it was. */
static void goes_and_comes_back(void) {
  ZicoPool pool = open_pool(16 * MIB);
  ZicoJob job = join(pool, "away"), other = join(pool, "here");
  unsigned char *kept = NULL;
  void *more = NULL;
  uint64_t gone = 0;
  OK(zico_alloc(job, 12 * MIB, NULL, (void **)&kept));
  memset(kept, 7, 12 * MIB);
  OK(zico_suspend(job, &gone));
  EXPECT(gone == 12 * MIB);
  EXPECT(zico_suspend(job, NULL) == ZICO_NOT_NOW);
  EXPECT(zico_alloc(job, MIB, NULL, &more) == ZICO_NOT_NOW);
  OK(zico_begin(other));
  OK(zico_alloc(other, 14 * MIB, NULL, &more));
  memset(more, 8, 14 * MIB);
  OK(zico_dealloc(more));
  OK(zico_end(other));
  OK(zico_resume(job));
  OK(zico_resume(job));
  for (uint64_t at = 0; at < 12 * MIB; at += 4093)
    EXPECT(kept[at] == 7);
  OK(zico_dealloc(kept));
  OK(zico_leave(job, NULL));
  OK(zico_leave(other, NULL));
  EXPECT(zico_suspend(job, NULL) == ZICO_BAD_HANDLE);
  EXPECT(zico_resume(job) == ZICO_BAD_HANDLE);
  OK(zico_close(pool));
}

struct worker {
  ZicoJob job;
  unsigned char seed;
};

/* Iterations of blocks that are filled, checked and freed, some of them by this thread's neighbour. */
static void *work(void *argument) {
  struct worker *worker = argument;
  OK(zico_use(worker->job));
  for (int turn = 0; turn < 20; turn++) {
    unsigned char *blocks[8];
    for (int i = 0; i < 8; i++) {
      size_t size = (size_t)(64 << 10) * (size_t)(i + 1);
      blocks[i] = zico_malloc(size, 0, NULL);
      EXPECT(blocks[i]);
      EXPECT((uintptr_t)blocks[i] % 512 == 0);
      memset(blocks[i], worker->seed + i, size);
    }
    for (int i = 7; i >= 0; i--) {
      size_t size = (size_t)(64 << 10) * (size_t)(i + 1);
      EXPECT(blocks[i][0] == (unsigned char)(worker->seed + i));
      EXPECT(blocks[i][size - 1] == (unsigned char)(worker->seed + i));
      zico_free(blocks[i], size, 0, NULL);
    }
    OK(zico_mark_current());
  }
  OK(zico_use(0));
  return NULL;
}

/* Two jobs under one budget that holds less than both of their waves. */
static void threads(void) {
  ZicoPool pool = open_pool(4 * MIB);
  struct worker workers[2] = {{join(pool, "one"), 10}, {join(pool, "other"), 100}};
  pthread_t ids[2];
  for (int i = 0; i < 2; i++) EXPECT(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < 2; i++) EXPECT(pthread_join(ids[i], NULL) == 0);
  ZicoPoolStats held;
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.held <= 4 * MIB);
  for (int i = 0; i < 2; i++) {
    ZicoJobStats stats;
    OK(zico_job_stats(workers[i].job, &stats));
    EXPECT(stats.allocations == 160 && stats.frees == 160 && stats.iterations == 19);
    OK(zico_leave(workers[i].job, NULL));
  }
  OK(zico_close(pool));
}

/* What frameworks call, and a child that is forked. */
static void plug(void) {
  EXPECT(zico_malloc(1000, 0, NULL) == NULL);
  EXPECT(strstr(zico_last_error(), "no job is in use"));
  ZicoPool pool = open_pool(16 * MIB);
  ZicoJob job = join(pool, NULL);
  OK(zico_use_everywhere(job));
  EXPECT(zico_malloc(0, 0, NULL) == NULL);
  char *block = zico_malloc(MIB, 0, NULL);
  EXPECT(block);
  strcpy(block, "the parent's");
  block[MIB - 1] = 'z';
  EXPECT(zico_block_size(block) == MIB && zico_block_size(block + 512) == 0);
  EXPECT(zico_malloc(32 * MIB, 0, NULL) == NULL);
  EXPECT(strstr(zico_last_error(), "out of memory"));
  EXPECT(zico_last_status() == ZICO_OUT_OF_MEMORY && !zico_is_forked());

  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    /* It has a copy of what its parent had. Everything is refused, and nothing is harmed. */
    int same = strcmp(block, "the parent's") == 0 && block[MIB - 1] == 'z' &&
               zico_block_size(block) == MIB && zico_block_size(block + 512) == 0;
    strcpy(block, "the child's");
    int refused = zico_malloc(1000, 0, NULL) == NULL && zico_mark(job) == ZICO_FORKED &&
                  zico_dealloc(block) == ZICO_FORKED &&
                  strstr(zico_last_error(), "forked") != NULL;
    zico_free(block, MIB, 0, NULL);
    zico_empty_cache();
    _exit(same && refused && zico_is_forked() && strcmp(block, "the child's") == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(strcmp(block, "the parent's") == 0);
  zico_free(block, MIB, 0, NULL);
  zico_free(NULL, 0, 0, NULL);
  zico_empty_cache();
  ZicoPoolStats held;
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.held == 0);
  OK(zico_leave(job, NULL));
  EXPECT(zico_malloc(1000, 0, NULL) == NULL);
  OK(zico_close(pool));
}

/* Where there is no CUDA driver that is said. */
static void cuda(void) {
  ZicoPool pool = 0;
  ZicoStatus status = zico_open_cuda(0, 64 * MIB, &pool);
  EXPECT(status == ZICO_OK || status == ZICO_UNSUPPORTED || status == ZICO_DEVICE);
  if (status == ZICO_OK) {
    ZicoJob job = join(pool, "cuda");
    void *block = NULL;
    OK(zico_begin(job));
    OK(zico_alloc(job, 8 * MIB, NULL, &block));
    OK(zico_dealloc(block));
    OK(zico_end(job));
    OK(zico_leave(job, NULL));
    OK(zico_close(pool));
    puts("cuda: a device");
  } else {
    printf("cuda: %s\n", zico_last_error());
  }
}

/* A broker on a thread, and a pool that is its client. */
static void *serve(void *socket) {
  int *stop = *(int **)((char *)socket + 128);
  EXPECT(zico_serve_host(socket, 16 * MIB, stop[0]) == ZICO_OK);
  return NULL;
}

static void broker(void) {
  ZicoPool pool = 0;
  EXPECT(zico_connect_host("/nonexistent/socket", 0, &pool) == ZICO_NO_BROKER);
  EXPECT(strstr(zico_last_error(), "no broker serves at /nonexistent/socket"));
  EXPECT(zico_connect_host(NULL, 0, &pool) == ZICO_INVALID);
  EXPECT(zico_serve_host(NULL, 16 * MIB, -1) == ZICO_INVALID);

  int stop[2];
  EXPECT(pipe(stop) == 0);
  struct {
    char socket[128];
    int *stop;
  } argument = {"", stop};
  const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  snprintf(argument.socket, sizeof argument.socket, "%s/zico-program-%d/socket", folder, getpid());
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, serve, &argument) == 0);
  ZicoStatus status = ZICO_NO_BROKER;
  for (int tries = 0; tries < 10000 && status != ZICO_OK; tries++) {
    status = zico_connect_host(argument.socket, 256 * MIB, &pool);
    if (status != ZICO_OK) usleep(1000);
  }
  OK(status);

  ZicoJob job = join(pool, "client");
  char *block = NULL;
  OK(zico_begin(job));
  OK(zico_alloc(job, 8 * MIB, NULL, (void **)&block));
  memset(block, 3, 8 * MIB);
  EXPECT(zico_try_alloc(job, 12 * MIB, NULL, (void **)&block) == ZICO_OUT_OF_MEMORY);
  ZicoPoolStats held;
  OK(zico_pool_stats(pool, &held));
  EXPECT(held.budget == 16 * MIB && held.held >= 8 * MIB && held.held <= 16 * MIB);
  OK(zico_dealloc(block));
  OK(zico_end(job));
  OK(zico_leave(job, NULL));
  OK(zico_close(pool));
  close(stop[1]);
  EXPECT(pthread_join(thread, NULL) == 0);
  close(stop[0]);
  *strrchr(argument.socket, '/') = 0;
  unlink(argument.socket);
  rmdir(argument.socket);
}

int main(int count, char **arguments) {
  int alone = count > 1 && strcmp(arguments[1], "--without-broker") == 0;
  EXPECT(strlen(zico_version()) >= 5);
  EXPECT(strcmp(zico_last_error(), "") == 0);
  misuse();
  out_of_memory();
  marks();
  goes_and_comes_back();
  goes_in_part();
  threads();
  plug();
  if (!alone) broker();
  cuda();
  puts("all as expected");
  return 0;
}
