package dashboard

import (
	"fmt"
	"time"

	"cutie/cmd/cutie/live"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

type workersPage struct {
	head
	Work workList
}

// A workList is the jobs in work, by worker.
type workList struct {
	List *jobsList
	Note string
}

// Workers returns the page of jobs in work, of a queue or of all with "". total is how
// many there are.
func Workers(v Site, queue string, jobs []queuefs.Job, total int, now time.Time) []byte {
	title, way := "Workers", []crumb{{Class: "step", Text: "Workers"}}
	if queue != "" {
		title, way = "Workers of queue "+queue, append([]crumb{{"step", v.page("state", queue), queue}}, way...)
	}
	return v.write("workers", &workersPage{v.head(title, way...), newWorkList(v.Base, queue, jobs, total, now)})
}

// WorkersParts are the parts of this page that change.
func WorkersParts(base state.Base, queue string, jobs []queuefs.Job, total int, now time.Time) []live.Part {
	return []live.Part{newPart("work", "work list", newWorkList(base, queue, jobs, total, now))}
}

func newWorkList(base state.Base, queue string, jobs []queuefs.Job, total int, now time.Time) workList {
	l := workList{List: newJobsList(base, jobsList{Heading: "Jobs in work", Worked: true, Queues: queue == ""}, jobs, now)}
	if total > len(jobs) {
		l.Note = fmt.Sprintf("%d of %s jobs in work, in no order.", len(jobs), grouped(fmt.Sprint(total)))
	}
	return l
}
