package state

import (
	"fmt"
	"strings"
	"time"
)

// Facts are the classes of documents that are no state of a thing: events, and
// what commands print. Their schemas in JSON are beside those of [Schemas], by the
// types of the documents.
var Facts = byRoot(EventClass, ResetClass, ErrorClass, VersionClass, ResultClass, CulledClass, KeptClass, UserClass,
	TokenClass, CheckClass, StoreClass, StoreCheckClass, FindingClass, UWSClass, ExportClass, SummaryClass, HelpClass,
	TakenClass, PublishingClass, HubClass, AboutClass, SyncClass, AuditClass, SourceClass, TakeoverClass, AuditedClass,
	BackupClass, RestoreClass)

func byRoot(classes ...*Class) map[string]*Class {
	all := map[string]*Class{}
	for _, c := range classes {
		all[c.Root] = c
	}
	return all
}

var (
	// EventClass is an event of a queue. Its namespace has the attributes of entries
	// in Change Lists too. Without job the event is of queue-info.txt. The job was not in
	// the queue without from, and no longer is without to; state is that of the job, or of
	// the queue, as long as there is one. Size and type are those of the payload, or of
	// queue-info.txt.
	EventClass = class("cut", "event", "event",
		"queue seq:int time:date kind job from to state:ref size:int type")
	// ResetClass says that events are missing: of all queues without queue.
	ResetClass = class("cut", "reset", "event",
		"kind queue after:int seq:int reason state:ref changes:ref")
	// ErrorClass is the failure of a command.
	ErrorClass   = class("err", "error", "error", "command exitCode:int detail hint")
	VersionClass = class("ver", "version", "version", "version specification go commit")
	// ResultClass is a result of a job.
	ResultClass = class("res", "result", "result", "queue job name")
	// CulledClass is a job that culling has removed, or would remove.
	CulledClass = class("cul", "culledJob", "cull", "queue job status size:int lastEvent:date")
	// KeptClass counts due jobs that culling has left.
	KeptClass = class("cul", "keptJobs", "cull", "queue spared:int")
	UserClass = class("usr", "user", "user",
		"name rights[right]! hasPassword:bool tokens[token]! limits")
	// TokenClass is a token: without rights it has those of its user, without expires it has no
	// end, and its secret is printed once.
	TokenClass = class("usr", "token", "user", "name user rights[right] expires:date secret")
	// CheckClass counts what cutie check has read; its findings are a class of their own.
	CheckClass = class("chk", "checkReport", "check",
		"home numQueues:int numJobs:int octets:int")
	// StoreClass is a home in an object store; image is 0 if there is none.
	StoreClass = class("sto", "storeState", "store",
		"url owner firstBatch:int lastBatch:int firstRecord:int lastRecord:int image:int "+
			"imageRecord:int imageMade:date recordsSince:int numObjects:int indexOctets:int publishedOctets:int "+
			"jobFileOctets:int payloadOctets:int")
	// StoreCheckClass counts what cutie store check has read.
	StoreCheckClass = class("sto", "storeReport", "store",
		"url numBatches:int numPieces:int numFiles:int octets:int")
	// FindingClass is what cutie check, doctor, store check or audit --source has found.
	FindingClass = class("fnd", "finding", "finding", "level! path! text! cure")
	// UWSClass is a job of a Universal Worker Service, as far as it is known.
	UWSClass = class("uwj", "uwsJob", "uws",
		"url:ref identifier phase created:date runId results[result]")
	// ExportClass counts what an export has written.
	ExportClass = class("exp", "export", "export",
		"numDocuments:int numFiles:int numRemoved:int octets:int numMoved:int")
	// PublishingClass is the status of publishing.
	PublishingClass = class("pub", "publishingState", "publishing",
		"baseURI:ref error sets:object[set]!")
	// HubClass is the WebSub hub with its subscriptions.
	HubClass = class("hub", "hubState", "hub",
		"hub:ref subscriptions:object[subscription]!")
	// AboutClass describes the Source or one of its sets.
	AboutClass = class("abt", "about", "about",
		"about:ref title description resourceSyncVersion software set queue:object "+
			"resources:int changes:object resourceDump:object octetsPublished:int hashes[hash] "+
			"mirrors:ref[mirror] via:ref retention:object limits:object howToFollow[paragraph] "+
			"documents:object[document] queues:int sets:object[set]")
	// SyncClass is a run of cutie sync; it has its time in seconds, too.
	SyncClass = class("syn", "syncReport", "copy",
		"source:ref sets:object[set] fetched:int same:int deleted:int refused:int failed:int "+
			"extra:int skipped:int requests:int octets:int dryRun:bool")
	// AuditClass is a comparison of a copy with its Source.
	AuditClass = class("aud", "auditReport", "copy",
		"source:ref resources:int same:int missing:int different:int extra:int inTransit:int "+
			"unexplained:int unverified:int alike:int skipped:int quick:bool "+
			"differences:object[difference] octets:int")
	// TakeoverClass is the report on mirrors made live queues.
	TakeoverClass = class("tkv", "takeover", "copy", "queues:object[queue]!")
	// AuditedClass is a comparison of a mirror with its original.
	AuditedClass = class("mau", "mirrorAudit", "copy",
		"queue source:ref began:date files:int missing:int different:int extra:int "+
			"differences[difference]!")
	// BackupClass is a backup of a home, and how far it reaches.
	BackupClass = class("bak", "backup", "copy",
		"home source:ref began:date files queues:object[queue]! fetched:int deleted:int "+
			"octets:int audit:object")
	// RestoreClass is a home made of a backup.
	RestoreClass = class("rst", "restored", "copy",
		"home source:ref queues:object[queue]! jobs:int octets:int problems[problem] "+
			"unfinished[job] bare[job] former[job] requeued:int also[file]")
	// SourceClass counts what cutie audit --source has read, and what it found beyond its list.
	SourceClass = class("src", "sourceReport", "copy",
		"source:ref found sets:int documents:int resources:int changes:int asked:int "+
			"packages:int more:int")
	// SummaryClass is a queue in a list of queues.
	SummaryClass = class("que", "queueSummary", "queue",
		"identifier numPendingJobs:int numCompletedJobs:int numDeletedJobs:int lastEvent:date "+
			"numHeldJobs:int numLeasedJobs:int numFailedJobs:int status closed:bool")
)

// class returns a class. root is the name of the root element, or LIST[ROOT] if there is an
// element for several of them. Each of the terms is NAME:TYPE[ITEM]!, where all but the name
// may be missing: a text has no type, only a list has an item, ! is for Always, and + for
// Paired.
func class(prefix, root, room, terms string) *Class {
	types := map[string]Type{"": String, "int": Integer, "bool": Boolean, "date": Date, "ref": Reference, "object": Object}
	c := &Class{Prefix: prefix, Root: root, Namespace: namespace + room}
	if list, item, ok := strings.Cut(strings.TrimSuffix(root, "]"), "["); ok {
		c.Root, c.List = item, list
	}
	for word := range strings.FieldsSeq(terms) {
		word, always := strings.CutSuffix(word, "!")
		word, paired := strings.CutSuffix(word, "+")
		word, item, _ := strings.Cut(strings.TrimSuffix(word, "]"), "[")
		name, kind, _ := strings.Cut(word, ":")
		c.Terms = append(c.Terms, Term{Name: name, Type: types[kind], Item: item, Always: always, Paired: paired})
	}
	return c
}

// Typed are the first members of a struct that is written as an object of a class.
type Typed struct {
	Context struct {
		Vocab string `json:"@vocab"`
	} `json:"@context"`
	Type string `json:"@type"`
}

// Typed returns the first members of an object of the class.
func (c *Class) Typed() (t Typed) {
	t.Context.Vocab, t.Type = c.Namespace+"/", c.Root
	return t
}

// OfFacts returns a document with values for the terms of a class, in their order:
// a string, int64, bool, time.Time or []string by the type of the term. Values nil,
// "", the zero time and lists without items are left out, and so are values missing
// at the end.
func OfFacts(c *Class, facts ...any) Document {
	b := newBuilder(c)
	for i, v := range facts {
		switch t := &c.Terms[i]; v := v.(type) {
		case nil:
		case string:
			if t.Type == Date {
				panic("state: " + t.Name + " is a date")
			}
			b.optional(t.Name, v)
		case int64:
			b.integer(t.Name, v)
		case bool:
			b.boolean(t.Name, v)
		case time.Time:
			b.date(t.Name, v)
		case []string:
			b.texts(t.Name, &v)
		default:
			panic(fmt.Sprintf("state: %T is no value for %s", v, t.Name))
		}
	}
	return b.document()
}

// FormatSize writes a number of bytes for people: all digits below 1000, else three
// digits and a unit.
func FormatSize(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	v, unit := float64(n), 0
	for ; v >= 999.5; unit++ {
		v /= 1000
	}
	return fmt.Sprintf("%.3g %cB", v, " kMGTPE"[unit])
}
