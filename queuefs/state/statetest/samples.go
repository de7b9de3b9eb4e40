package statetest

import (
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
)

// Base is the base of references in samples.
const Base = state.Base("http://cutie.example.org/base")

// Day is the date of the samples.
var Day = time.Date(2010, 4, 20, 16, 0, 0, 0, time.UTC)

// FullJob has a value for every property.
func FullJob() queuefs.Job {
	return queuefs.Job{
		ID: 42, Queue: "uc3+cutie=01^20x", Status: queuefs.Consumed, Seq: 7,
		Filename: "naïve \"file\".bin", MediaType: "text/plain", Submitter: "mrt-ingest/0.6",
		Sidecar: "profile=uc3_content; note=first\nsecond line\t100%",
		Size:    6,
		Digests: []digest.Value{digest.Sum(digest.SHA256, []byte("hello\n")), digest.Sum(digest.MD5, []byte("hello\n"))},
		Batch:   "b1", Consumer: "worker/1 \\ <x>",
		Submitted: Day, Consumed: Day.Add(30*time.Minute + 1500*time.Nanosecond),
		Requeued: Day.Add(time.Minute), Requeues: 2, Updated: Day.Add(2 * time.Minute),
		Owner: "me", Attempts: 3, Lease: queuefs.Lease{Ends: Day.Add(2 * time.Hour), Key: "secret"},
		Held: Day.Add(time.Second), HeldFor: "payload damaged", HeldUntil: Day.Add(3 * time.Hour),
		Outcome: queuefs.Failed, Finished: Day.Add(time.Hour), Message: "no space\n]]> left", Transient: true,
		Results: []queuefs.Result{{Name: "log.txt", MediaType: "text/plain", Size: 3}, {Name: "out"}},
		Extra:   anvl.Record{{Name: "owner", Value: "me"}, {Name: "owner", Value: "you"}},
	}
}

// PlainJob has few values.
func PlainJob() queuefs.Job {
	return queuefs.Job{ID: 1, Queue: "ingest", Status: queuefs.Pending, Seq: 1, Submitted: Day}
}

// FullQueue has a value for every property.
func FullQueue() state.Queue {
	return state.Queue{
		QueueState: queuefs.QueueState{
			Info: queuefs.QueueInfo{
				ID: "uc3+cutie=01", Identifier: "uc3:cutie/01", Name: "Queue01",
				Description: "UC3 primary <ingest> & queue", CullingSize: 100, CullingAge: 0,
				VerifyOnRead: true, Created: Day,
				Paused: Day.Add(2 * time.Hour), Closed: true, Acknowledge: queuefs.AckRequired,
				Lease: 90 * time.Second, MaxAttempts: 5, RetryDelay: 30 * time.Second, RetryFactor: 3, RetryMax: 10 * time.Minute,
				Limits: queuefs.Limits{Pending: 100, Active: job.Unlimited, Run: 3600}, Callback: "https://example.org/called?a=1&b=2",
				Digests: digest.SetOf(digest.MD5, digest.SHA512), Dumps: "replica",
			},
			Held: 1, Leased: 2, Failed: 1,
			Pending: 3, Consumed: 2, Deleted: 1, Seq: 12,
			LastEvent: Day.Add(time.Hour), LastSubmission: Day.Add(time.Minute),
			LastConsumption: Day.Add(time.Hour), Oldest: Day.Add(time.Second),
			Mirror: &queuefs.Mirror{Source: "https://first.example.org/", Ended: Day.Add(30 * time.Minute), Last: 9},
		},
		Jobs: state.Jobs{
			Status: queuefs.Pending, After: 2, Limit: 2,
			IDs: []queuefs.JobID{3, 4}, More: true,
		},
		Submitted: []queuefs.JobID{5, 6},
	}
}

// EmptyQueue is a queue without jobs.
func EmptyQueue() state.Queue {
	return state.Queue{
		QueueState: queuefs.QueueState{Info: queuefs.QueueInfo{
			ID: "ingest", CullingSize: -1, CullingAge: -1, VerifyOnRead: true, VerifyOnWrite: true, Created: Day,
		}},
		Jobs: state.Jobs{Limit: 100},
	}
}

// MirrorQueue is a mirror behind its original.
func MirrorQueue() state.Queue {
	q := EmptyQueue()
	q.Seq = 7
	q.Mirror = &queuefs.Mirror{Source: "https://first.example.org/", Audit: home.Audit{Time: Day.Add(time.Minute), Faults: 2}}
	q.Progress = home.Progress{Contact: Day.Add(2 * time.Hour), Synced: Day.Add(time.Hour), Known: 10, Trouble: "connection refused"}
	return q
}

// Service has two queues.
func Service() state.Service {
	return state.Service{
		ServiceInfo: queuefs.ServiceInfo{
			Name: "Cutie01", Identifier: "uc3:cutie01", Description: "UC3 queuing service",
			Scheme: "Cutie/0.3/0.1", BaseURI: "http://cutie.example.org/base/",
			SupportURI: "mailto:merritt-support@example.org", Created: Day, Modified: Day.Add(time.Hour),
		},
		Queues: []string{"ingest", "uc3+cutie=01"},
	}
}

// Node is a service that is a standby.
func Node() state.Service {
	s := Service()
	s.Node = state.Node{Role: "standby", Owner: "process 1 on here & there", OwnerURI: "http://10.0.0.1:8080/", Batch: 42, UpToDate: Day.Add(time.Minute)}
	return s
}

// Batch is done.
func Batch() state.Batch {
	return state.Batch{
		ID: "7", Queue: "uc3+cutie=01", Status: state.BatchDone, Created: Day, Finished: Day.Add(time.Minute),
		Lines: 3, Fetched: 3, Octets: 1 << 40, Name: "b000000000005-2", Detail: "half of it",
		Errors:    []string{"line 2: http://h/?a=1&b=2: not found", " line 3: <gone> \n"},
		Submitted: []queuefs.JobID{5, 6},
	}
}

// Documents are all kinds of documents by the name of their golden file.
func Documents() map[string]state.Document {
	full, plain, queue, empty, mirror, svc, bat := FullJob(), PlainJob(), FullQueue(), EmptyQueue(), MirrorQueue(), Service(), Batch()
	node := Node()
	none := state.Service{ServiceInfo: queuefs.ServiceInfo{Scheme: "Cutie/0.3/1.0", BaseURI: "http://h/"}}
	return map[string]state.Document{
		"job":           state.OfJob(Base, &full),
		"job-plain":     state.OfJob(Base, &plain),
		"queue":         state.OfQueue(Base, &queue),
		"queue-empty":   state.OfQueue(Base, &empty),
		"queue-mirror":  state.OfQueue(Base, &mirror),
		"service":       state.OfService(&svc),
		"service-node":  state.OfService(&node),
		"service-empty": state.OfService(&none),
		"batch":         state.OfBatch(Base, &bat),
		"batch-new":     state.OfBatch(Base, &state.Batch{ID: "000001", Queue: "ingest", Status: state.BatchFetching, Created: Day}),
		"exception":     state.OfException(state.Exception{Status: 404, Detail: "queue not found: \"x\""}),
		"help":          state.OfHelp(state.Help{Summary: "a queue", Text: "one\ntwo", Methods: []string{"Submit-job"}}),
	}
}
