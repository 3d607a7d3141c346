/* In the place of a launcher: closes descriptors with registered events, and makes arrays. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct event {
  int fd;
  short events;
  int is_added;
};

int event_add(struct event *event, const void *timeout);
int event_del(struct event *event);
void event_free(struct event *event);
void *PMIx_Info_create(size_t elements);

enum { TIMEOUT = 1, READ = 2, PERSIST = 16 };

int main(void)
{
  struct event once, kept, deleted, freed;
  struct event *all[4];
  int k, status = 0;
  all[0] = &once, all[1] = &kept, all[2] = &deleted, all[3] = &freed;
  for (k = 0; k < 4; k++) {
    all[k]->fd = open("/dev/null", O_RDONLY);
    all[k]->events = k == 0 ? READ : READ | PERSIST;
    event_add(all[k], NULL);
  }
  event_del(&deleted);
  event_free(&freed);
  fflush(stdout);
  /* What is not executed yet shares the parent's registrations: nothing is deleted for it. */
  if (fork() == 0) {
    close(kept.fd);
    fflush(stdout);
    _exit(0);
  }
  wait(&status);
  printf("closing\n");
  for (k = 0; k < 4; k++)
    if (close(all[k]->fd) != 0) printf("%d was not open\n", all[k]->fd);
  PMIx_Info_create(0);
  PMIx_Info_create(1);
  printf("closed, preloaded: %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "nothing");
  return status;
}
