/* Partitions of the floor program: one file each, with the positions of all batches in memory. */
#include <fcntl.h>
#include <unistd.h>

#include "floor/log.h"
#include "kernel/crc32c_hardware.h"
#include "wire/tools.h"

enum {
    ALLOCATE_BYTES_MIN = 64 << 10, /* the first reservation; it doubles up to the maximum */
    ALLOCATE_BYTES_MAX = 16 << 20,
    RECYCLED_FILE_BYTES = 64 << 20, /* a recycled file is overwritten after this size */
    PATH_BYTES_MAX = 4096,
};

static struct topic *topics;

/* Files of deleted topics, when files are recycled. */
static struct partition *spares;
static size_t spare_count;

struct topic *topic_find(struct text name)
{
    for (struct topic *topic = topics; topic != NULL; topic = topic->next)
        if (strlen(topic->name) == name.size && memcmp(topic->name, name.bytes, name.size) == 0)
            return topic;
    return NULL;
}

static void file_path(char *path, const char *folder, const char *topic, int partition)
{
    snprintf(path, PATH_BYTES_MAX, "%s/%s-%d.log", folder, topic, partition);
}

static void partition_open(const struct log_options *options, struct partition *partition,
                           const char *path)
{
    if (spare_count > 0) {
        struct partition *spare = &spares[--spare_count];
        *partition = (struct partition){.fd = spare->fd, .allocated = spare->allocated};
        return;
    }
    *partition = (struct partition){.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    if (partition->fd < 0)
        die("open %s: %s", path, strerror(errno));
    if (options->recycles)
        unlink(path); /* the file is not needed after the process has ended */
}

void topic_create(const struct log_options *options, struct text name, int partition_count)
{
    struct topic *topic = allocate(1, sizeof *topic);
    topic->name = strndup(name.bytes, name.size);
    topic->partition_count = partition_count;
    topic->partitions = allocate((size_t)partition_count, sizeof *topic->partitions);
    topic->next = topics;
    topics = topic;
    for (int i = 0; i < partition_count; i++) {
        char path[PATH_BYTES_MAX];
        file_path(path, options->folder, topic->name, i);
        partition_open(options, &topic->partitions[i], path);
    }
}

static void partition_close(const struct log_options *options, struct partition *partition,
                            const char *path)
{
    free(partition->places);
    if (!options->recycles) {
        close(partition->fd);
        unlink(path);
        return;
    }
    spares = realloc(spares, (spare_count + 1) * sizeof *spares);
    if (spares == NULL)
        die("no memory for spare files");
    spares[spare_count++] = *partition;
}

void topic_delete(const struct log_options *options, struct topic *topic)
{
    struct topic **link = &topics;
    while (*link != topic)
        link = &(*link)->next;
    *link = topic->next;
    for (int i = 0; i < topic->partition_count; i++) {
        char path[PATH_BYTES_MAX];
        file_path(path, options->folder, topic->name, i);
        partition_close(options, &topic->partitions[i], path);
    }
    free(topic->name);
    free(topic->partitions);
    free(topic);
}

/* Reserves size bytes at the position, in steps as a broker does for its segments. */
static void partition_reserve(const struct log_options *options, struct partition *partition,
                              size_t size)
{
    if (options->recycles && partition->position + (int64_t)size > RECYCLED_FILE_BYTES)
        partition->position = 0;
    while (partition->position + (int64_t)size > partition->allocated) {
        int64_t step = 2 * partition->allocated_last;
        step = step < ALLOCATE_BYTES_MIN ? ALLOCATE_BYTES_MIN : step;
        step = step > ALLOCATE_BYTES_MAX ? ALLOCATE_BYTES_MAX : step;
        if (fallocate(partition->fd, 0, partition->allocated, step) < 0)
            die("fallocate: %s", strerror(errno));
        partition->allocated += step;
        partition->allocated_last = step;
    }
}

static void partition_note(struct partition *partition)
{
    if (partition->place_count == partition->place_capacity) {
        partition->place_capacity = 2 * partition->place_capacity + 1024;
        partition->places = realloc(partition->places,
                                    partition->place_capacity * sizeof *partition->places);
        if (partition->places == NULL)
            die("no memory for the positions of batches");
    }
    partition->places[partition->place_count++] =
        (struct batch_place){partition->next_offset, partition->position};
}

int64_t partition_append(const struct log_options *options, struct partition *partition,
                         uint8_t *batch, size_t size)
{
    uint32_t crc = crc32c_extend(0, batch + BATCH_CHECKED_POSITION, size - BATCH_CHECKED_POSITION);
    if (crc != (uint32_t)get_int(batch + BATCH_CRC_POSITION, 4))
        return -1;
    set_int(batch, partition->next_offset, 8);
    set_int(batch + BATCH_EPOCH_POSITION, 0, 4);
    partition_reserve(options, partition, size);
    if (pwrite(partition->fd, batch, size, partition->position) != (ssize_t)size)
        die("pwrite: %s", strerror(errno));
    partition_note(partition);
    int64_t base_offset = partition->next_offset;
    partition->position += (int64_t)size;
    partition->next_offset += get_int(batch + BATCH_RECORDS_POSITION, 4);
    return base_offset;
}

/* Returns the number of places whose base offset (or position) is at most the value. */
static size_t places_up_to(const struct partition *partition, int64_t value, bool by_offset)
{
    size_t low = 0, high = partition->place_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct batch_place *place = &partition->places[middle];
        if ((by_offset ? place->base_offset : place->position) <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct span partition_slice(const struct partition *partition, int64_t offset, size_t bytes_max)
{
    if (offset < 0 || offset >= partition->next_offset)
        return (struct span){0, 0};
    size_t first = places_up_to(partition, offset, true) - 1;
    int64_t start = partition->places[first].position, end = partition->position;
    if (end - start > (int64_t)bytes_max) {
        size_t last = places_up_to(partition, start + (int64_t)bytes_max, false) - 1;
        last = last > first ? last : first + 1;
        end = last < partition->place_count ? partition->places[last].position : end;
    }
    return (struct span){start, (size_t)(end - start)};
}
