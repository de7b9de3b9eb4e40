package replay

import (
	"bytes"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// NoJobFile is why a job is on hold after the loss of its original.
const NoJobFile = "its job file was not in the copy, nor whether the original handed it out"

// NoPayload is why a job is on hold after the loss of its original.
const NoPayload = "its payload was not in the copy"

// Place gives a job, with a former job file of the status was, the status of a later event.
// Of a job without a job file was is 0. A pending job is put on hold now, so that an
// operator decides.
func Place(j *job.Job, was, st job.Status, changed, now time.Time) {
	switch {
	case st == was:
	case st == job.Consumed:
		j.Enter(st)
		j.Consumed = changed
	case st == job.Deleted:
		j.Delete(changed)
	case was != 0:
		j.GoBack(changed)
	}
	if st == job.Pending {
		j.Hold(now, NoJobFile, time.Time{})
	}
}

// formerSettings begins the note of [NoteFormer].
const formerSettings = "# Settings of before the loss of the original, noted at "

// NoteFormer returns a former queue-info.txt with a note, in the place of one of before:
// the original had later settings.
func NoteFormer(text []byte, now time.Time) []byte {
	var noted []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(formerSettings)) {
			noted = append(noted, line...)
		}
	}
	noted = bytes.TrimSuffix(noted, []byte("\n"))
	return fmt.Appendf(noted, "\n%s%s; the original had later ones, which are not in the copy.\n", formerSettings, now.Format(time.RFC3339Nano))
}
