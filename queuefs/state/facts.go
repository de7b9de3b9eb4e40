package state

import (
	"fmt"
	"time"
)

// Facts are the classes of documents that are no state of a thing: events, and
// what commands print. Their schemas in JSON are beside those of [Schemas], by the
// types of the documents.
var Facts = byRoot(EventClass, ResetClass, ErrorClass, VersionClass, ResultClass, CulledClass, KeptClass, UserClass, TokenClass,
	CheckClass, StoreClass, StoreCheckClass, FindingClass, UWSClass, ExportClass, SummaryClass, HelpClass, TakenClass, PublishingClass, HubClass, AboutClass,
	SyncClass, AuditClass, SourceClass, TakeoverClass, AuditedClass, BackupClass, RestoreClass)

func byRoot(classes ...*Class) map[string]*Class {
	all := map[string]*Class{}
	for _, c := range classes {
		all[c.Root] = c
	}
	return all
}

var (
	// EventClass is an event of a queue. Its namespace has the attributes of entries
	// in Change Lists too.
	EventClass = &Class{
		Prefix: "cut", Root: "event", Namespace: namespace + "event",
		Terms: []Term{
			{Name: "queue"}, // cleaned identifier
			{Name: "seq", Type: Integer},
			{Name: "time", Type: Date},
			{Name: "kind"},
			{Name: "job"},                    // absent: the event is of queue-info.txt
			{Name: "from"},                   // absent: it was not in the queue
			{Name: "to"},                     // absent: it no longer is
			{Name: "state", Type: Reference}, // of the job, or of the queue; absent when there is none any more
			{Name: "size", Type: Integer},    // bytes of the payload, or of queue-info.txt
			{Name: "type"},                   // media type of the same
		},
	}
	// ResetClass says that events are missing.
	ResetClass = &Class{
		Prefix: "cut", Root: "reset", Namespace: namespace + "event",
		Terms: []Term{
			{Name: "kind"},  // reset
			{Name: "queue"}, // absent: all of them
			{Name: "after", Type: Integer},
			{Name: "seq", Type: Integer},
			{Name: "reason"},
			{Name: "state", Type: Reference},
			{Name: "changes", Type: Reference},
		},
	}
	// ErrorClass is the failure of a command.
	ErrorClass = &Class{
		Prefix: "err", Root: "error", Namespace: namespace + "error",
		Terms: []Term{{Name: "command"}, {Name: "exitCode", Type: Integer}, {Name: "detail"}, {Name: "hint"}},
	}
	VersionClass = &Class{
		Prefix: "ver", Root: "version", Namespace: namespace + "version",
		Terms: []Term{{Name: "version"}, {Name: "specification"}, {Name: "go"}, {Name: "commit"}},
	}
	// ResultClass is a result of a job.
	ResultClass = &Class{
		Prefix: "res", Root: "result", Namespace: namespace + "result",
		Terms: []Term{{Name: "queue"}, {Name: "job"}, {Name: "name"}},
	}
	// CulledClass is a job that culling has removed, or would remove.
	CulledClass = &Class{
		Prefix: "cul", Root: "culledJob", Namespace: namespace + "cull",
		Terms: []Term{{Name: "queue"}, {Name: "job"}, {Name: "status"}, {Name: "size", Type: Integer}, {Name: "lastEvent", Type: Date}},
	}
	// KeptClass counts due jobs that culling has left.
	KeptClass = &Class{
		Prefix: "cul", Root: "keptJobs", Namespace: namespace + "cull",
		Terms: []Term{{Name: "queue"}, {Name: "spared", Type: Integer}},
	}
	UserClass = &Class{
		Prefix: "usr", Root: "user", Namespace: namespace + "user",
		Terms: []Term{{Name: "name"}, {Name: "rights", Item: "right", Always: true}, {Name: "hasPassword", Type: Boolean},
			{Name: "tokens", Item: "token", Always: true}, {Name: "limits"}},
	}
	TokenClass = &Class{
		Prefix: "usr", Root: "token", Namespace: namespace + "user",
		Terms: []Term{{Name: "name"}, {Name: "user"}, {Name: "rights", Item: "right"}, // absent: those of the user
			{Name: "expires", Type: Date}, // absent: never
			{Name: "secret"}},             // printed once
	}
	// CheckClass counts what cutie check has read; its findings are a class of their own.
	CheckClass = &Class{
		Prefix: "chk", Root: "checkReport", Namespace: namespace + "check",
		Terms: []Term{{Name: "home"}, {Name: "numQueues", Type: Integer}, {Name: "numJobs", Type: Integer}, {Name: "octets", Type: Integer}},
	}
	// StoreClass is a home in an object store.
	StoreClass = &Class{
		Prefix: "sto", Root: "storeState", Namespace: namespace + "store",
		Terms: []Term{{Name: "url"}, {Name: "owner"}, {Name: "firstBatch", Type: Integer}, {Name: "lastBatch", Type: Integer},
			{Name: "firstRecord", Type: Integer}, {Name: "lastRecord", Type: Integer}, {Name: "image", Type: Integer}, // 0: there is none
			{Name: "imageRecord", Type: Integer}, {Name: "imageMade", Type: Date}, {Name: "recordsSince", Type: Integer}, {Name: "numObjects", Type: Integer},
			{Name: "indexOctets", Type: Integer}, {Name: "publishedOctets", Type: Integer}, {Name: "jobFileOctets", Type: Integer},
			{Name: "payloadOctets", Type: Integer}},
	}
	// StoreCheckClass counts what cutie store check has read.
	StoreCheckClass = &Class{
		Prefix: "sto", Root: "storeReport", Namespace: namespace + "store",
		Terms: []Term{{Name: "url"}, {Name: "numBatches", Type: Integer}, {Name: "numPieces", Type: Integer}, {Name: "numFiles", Type: Integer},
			{Name: "octets", Type: Integer}},
	}
	// FindingClass is what cutie check, doctor, store check or audit --source has found.
	FindingClass = &Class{
		Prefix: "fnd", Root: "finding", Namespace: namespace + "finding",
		Terms: []Term{{Name: "level", Always: true}, {Name: "path", Always: true}, {Name: "text", Always: true}, {Name: "cure"}},
	}
	// UWSClass is a job of a Universal Worker Service, as far as it is known.
	UWSClass = &Class{
		Prefix: "uwj", Root: "uwsJob", Namespace: namespace + "uws",
		Terms: []Term{{Name: "url", Type: Reference}, {Name: "identifier"}, {Name: "phase"}, {Name: "created", Type: Date}, {Name: "runId"},
			{Name: "results", Item: "result"}},
	}
	// ExportClass counts what an export has written.
	ExportClass = &Class{
		Prefix: "exp", Root: "export", Namespace: namespace + "export",
		Terms: []Term{{Name: "numDocuments", Type: Integer}, {Name: "numFiles", Type: Integer}, {Name: "numRemoved", Type: Integer},
			{Name: "octets", Type: Integer}, {Name: "numMoved", Type: Integer}},
	}
	// PublishingClass is the status of publishing.
	PublishingClass = &Class{
		Prefix: "pub", Root: "publishingState", Namespace: namespace + "publishing",
		Terms: []Term{{Name: "baseURI", Type: Reference}, {Name: "error"}, {Name: "sets", Type: Object, Item: "set", Always: true}},
	}
	// HubClass is the WebSub hub with its subscriptions.
	HubClass = &Class{
		Prefix: "hub", Root: "hubState", Namespace: namespace + "hub",
		Terms: []Term{{Name: "hub", Type: Reference}, {Name: "subscriptions", Type: Object, Item: "subscription", Always: true}},
	}
	// AboutClass describes the Source or one of its sets.
	AboutClass = &Class{
		Prefix: "abt", Root: "about", Namespace: namespace + "about",
		Terms: []Term{{Name: "about", Type: Reference}, {Name: "title"}, {Name: "description"}, {Name: "resourceSyncVersion"}, {Name: "software"},
			{Name: "set"}, {Name: "queue", Type: Object}, {Name: "resources", Type: Integer}, {Name: "changes", Type: Object},
			{Name: "resourceDump", Type: Object}, {Name: "octetsPublished", Type: Integer}, {Name: "hashes", Item: "hash"},
			{Name: "mirrors", Type: Reference, Item: "mirror"}, {Name: "via", Type: Reference}, {Name: "retention", Type: Object},
			{Name: "limits", Type: Object}, {Name: "howToFollow", Item: "paragraph"}, {Name: "documents", Type: Object, Item: "document"},
			{Name: "queues", Type: Integer}, {Name: "sets", Type: Object, Item: "set"}},
	}
	// SyncClass is a run of cutie sync; it has its time in seconds, too.
	SyncClass = &Class{
		Prefix: "syn", Root: "syncReport", Namespace: namespace + "copy",
		Terms: []Term{{Name: "source", Type: Reference}, {Name: "sets", Type: Object, Item: "set"}, {Name: "fetched", Type: Integer},
			{Name: "same", Type: Integer}, {Name: "deleted", Type: Integer}, {Name: "refused", Type: Integer}, {Name: "failed", Type: Integer},
			{Name: "extra", Type: Integer}, {Name: "skipped", Type: Integer}, {Name: "requests", Type: Integer}, {Name: "octets", Type: Integer}, {Name: "dryRun", Type: Boolean}},
	}
	// AuditClass is a comparison of a copy with its Source.
	AuditClass = &Class{
		Prefix: "aud", Root: "auditReport", Namespace: namespace + "copy",
		Terms: []Term{{Name: "source", Type: Reference}, {Name: "resources", Type: Integer}, {Name: "same", Type: Integer},
			{Name: "missing", Type: Integer}, {Name: "different", Type: Integer}, {Name: "extra", Type: Integer}, {Name: "inTransit", Type: Integer},
			{Name: "unexplained", Type: Integer}, {Name: "unverified", Type: Integer}, {Name: "alike", Type: Integer}, {Name: "skipped", Type: Integer}, {Name: "quick", Type: Boolean},
			{Name: "differences", Type: Object, Item: "difference"}, {Name: "octets", Type: Integer}},
	}
	// TakeoverClass is the report on mirrors made live queues.
	TakeoverClass = &Class{
		Prefix: "tkv", Root: "takeover", Namespace: namespace + "copy",
		Terms: []Term{{Name: "queues", Type: Object, Item: "queue", Always: true}},
	}
	// AuditedClass is a comparison of a mirror with its original.
	AuditedClass = &Class{
		Prefix: "mau", Root: "mirrorAudit", Namespace: namespace + "copy",
		Terms: []Term{{Name: "queue"}, {Name: "source", Type: Reference}, {Name: "began", Type: Date}, {Name: "files", Type: Integer},
			{Name: "missing", Type: Integer}, {Name: "different", Type: Integer}, {Name: "extra", Type: Integer},
			{Name: "differences", Item: "difference", Always: true}},
	}
	// BackupClass is a backup of a home, and how far it reaches.
	BackupClass = &Class{
		Prefix: "bak", Root: "backup", Namespace: namespace + "copy",
		Terms: []Term{{Name: "home"}, {Name: "source", Type: Reference}, {Name: "began", Type: Date}, {Name: "files"},
			{Name: "queues", Type: Object, Item: "queue", Always: true}, {Name: "fetched", Type: Integer}, {Name: "deleted", Type: Integer},
			{Name: "octets", Type: Integer}, {Name: "audit", Type: Object}},
	}
	// RestoreClass is a home made of a backup.
	RestoreClass = &Class{
		Prefix: "rst", Root: "restored", Namespace: namespace + "copy",
		Terms: []Term{{Name: "home"}, {Name: "source", Type: Reference}, {Name: "queues", Type: Object, Item: "queue", Always: true},
			{Name: "jobs", Type: Integer}, {Name: "octets", Type: Integer}, {Name: "problems", Item: "problem"},
			{Name: "unfinished", Item: "job"}, {Name: "bare", Item: "job"}, {Name: "former", Item: "job"}, {Name: "requeued", Type: Integer}, {Name: "also", Item: "file"}},
	}
	// SourceClass counts what cutie audit --source has read, and what it found beyond its list.
	SourceClass = &Class{
		Prefix: "src", Root: "sourceReport", Namespace: namespace + "copy",
		Terms: []Term{{Name: "source", Type: Reference}, {Name: "found"}, {Name: "sets", Type: Integer}, {Name: "documents", Type: Integer},
			{Name: "resources", Type: Integer}, {Name: "changes", Type: Integer}, {Name: "asked", Type: Integer}, {Name: "packages", Type: Integer},
			{Name: "more", Type: Integer}},
	}
	// SummaryClass is a queue in a list of queues.
	SummaryClass = &Class{
		Prefix: "que", Root: "queueSummary", Namespace: namespace + "queue",
		Terms: []Term{{Name: "identifier"}, {Name: "numPendingJobs", Type: Integer}, {Name: "numCompletedJobs", Type: Integer},
			{Name: "numDeletedJobs", Type: Integer}, {Name: "lastEvent", Type: Date}, {Name: "numHeldJobs", Type: Integer},
			{Name: "numLeasedJobs", Type: Integer}, {Name: "numFailedJobs", Type: Integer}, {Name: "status"}, {Name: "closed", Type: Boolean}},
	}
)

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
			items := make([]string, len(v))
			for i, s := range v {
				items[i] = validText(s)
			}
			b.list(t.Name, items)
		default:
			panic(fmt.Sprintf("state: %T is no value for %s", v, t.Name))
		}
	}
	return b.document()
}

// Schemas are the classes with schemas, by their names in URLs: "queue" is for
// queue.xsd and queue.json.
var Schemas = map[string]*Class{
	"service":   ServiceClass,
	"queue":     QueueClass,
	"job":       JobClass,
	"batch":     BatchClass,
	"exception": ExceptionClass,
}

// ClassNamed returns the class with a schema of this name: that in [Schemas], or the
// type of its documents. It is nil if there is none.
func ClassNamed(name string) *Class {
	if c := Schemas[name]; c != nil {
		return c
	}
	for _, c := range Schemas {
		if c.Root == name {
			return c
		}
	}
	return Facts[name]
}

// XMLSchema returns the XML Schema of the documents of c in XML. Elements of
// other namespaces may follow those of c.
func XMLSchema(c *Class) []byte {
	dst := []byte(`<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="`)
	dst = append(append(dst, c.Namespace...), `" elementFormDefault="qualified"`...)
	if c.List != "" {
		dst = append(dst, " xmlns:"+c.Prefix+`="`+c.Namespace+`"`...)
	}
	dst = append(dst, `>
    <xs:element name="`...)
	dst = append(append(dst, c.Root...), `">
        <xs:complexType>
            <xs:sequence>
`...)
	for i := range c.Terms {
		t := &c.Terms[i]
		dst = append(append(dst, `                <xs:element name="`...), t.Name...)
		dst = append(dst, '"')
		if t.Item == "" {
			dst = append(append(append(dst, ` type="`...), xmlTypes[t.Type]...), "\" minOccurs=\"0\"/>\n"...)
			continue
		}
		if !t.Always {
			dst = append(dst, ` minOccurs="0"`...)
		}
		dst = append(dst, `>
                    <xs:complexType>
                        <xs:sequence>
                            <xs:element name="`...)
		dst = append(append(dst, t.Item...), `" type="`...)
		dst = append(append(dst, xmlTypes[t.Type]...), `" minOccurs="0" maxOccurs="unbounded"/>
                        </xs:sequence>
                    </xs:complexType>
                </xs:element>
`...)
	}
	dst = append(dst, `                <xs:any namespace="##other" processContents="lax" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
`...)
	if c.List != "" {
		dst = append(dst, `    <xs:element name="`+c.List+`">
        <xs:complexType>
            <xs:sequence>
                <xs:element ref="`+c.Prefix+":"+c.Root+`" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
`...)
	}
	return append(dst, "</xs:schema>\n"...)
}

var xmlTypes = [...]string{String: "xs:string", Integer: "xs:long", Boolean: "xs:boolean", Date: "xs:dateTime", Reference: "xs:anyURI"}

// JSONSchema returns the JSON Schema, draft 2020-12, of the documents of c in
// JSON. Further properties are allowed.
func JSONSchema(c *Class) []byte {
	dst := []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"` + c.Root +
		`","type":"object","required":["` + nameContext + `","` + nameType + `"`)
	for i := range c.Terms {
		if c.Terms[i].Always {
			dst = append(dst, `,"`+c.Terms[i].Name+`"`...)
		}
	}
	dst = append(dst, `],"properties":{"`+nameContext+`":{"const":{"@vocab":"`+c.Namespace+`/"}},
"`+nameType+`":{"const":"`+c.Root+`"},
"`+nameID+`":{`+jsonTypes[Reference]+"}"...)
	for i := range c.Terms {
		t := &c.Terms[i]
		dst = append(appendName(append(dst, ",\n"...), t.Name), '{')
		if t.Item != "" {
			dst = append(append(append(dst, `"type":"array","items":{`...), jsonTypes[t.Type]...), "}}"...)
			continue
		}
		dst = append(append(dst, jsonTypes[t.Type]...), '}')
	}
	return append(dst, "}}\n"...)
}

var jsonTypes = [...]string{
	String:    `"type":"string"`,
	Integer:   `"type":"integer"`,
	Boolean:   `"type":"boolean"`,
	Date:      `"type":"string","format":"date-time"`,
	Reference: `"type":"string","format":"uri-reference"`,
	Object:    `"type":"object"`,
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
