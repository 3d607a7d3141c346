/* In the place of libevent and OpenPMIx: says what is asked of it. */
#include <stddef.h>
#include <stdio.h>

struct event {
  int fd;
  short events;
  int is_added;
};

int event_get_fd(const struct event *event) { return event->fd; }

short event_get_events(const struct event *event) { return event->events; }

int event_add(struct event *event, const void *timeout)
{
  (void)timeout;
  event->is_added = 1;
  printf("added %d\n", event->fd);
  return 0;
}

int event_del(struct event *event)
{
  if (event->is_added) printf("deleted %d\n", event->fd);
  event->is_added = 0;
  return 0;
}

int event_del_noblock(struct event *event)
{
  return event_del(event);
}

void event_free(struct event *event) { event_del(event); }

void *PMIx_Info_create(size_t elements)
{
  printf("elements %zu\n", elements);
  return NULL;
}
