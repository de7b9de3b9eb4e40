package about

import (
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/sitemap"
)

// Title returns the title of a set of a queue.
func Title(s names.Set, info queuefs.QueueInfo) string {
	name := info.Name
	if name == "" {
		name = info.ID
	}
	return [...]string{names.Pending: "Pending jobs of the queue ", names.Replica: "Replica of the queue "}[s] + name
}

// SourceText describes the Source.
const SourceText = "The queues of a Cutie service, each published as two sets of resources by ResourceSync (ANSI/NISO Z39.99)."

// SetText describes a set.
func SetText(s names.Set) string {
	return [...]string{
		names.Pending: "One resource for each pending job of the queue: its payload, described by its job file. A job that is submitted or put back is created; one that is taken or deleted is deleted.",
		names.Replica: "Every file of the queue's directory under its own URL: payloads, job files and queue-info.txt. Copied to a directory of a Cutie home it is a queue.",
	}[s]
}

// OpenListText describes the open Change List.
const OpenListText = "the open Change List: the newest changes, true to the last event"

// Text describes a document of a capability.
func Text(c sitemap.Capability) string {
	if text := texts[c]; text != "" {
		return text
	}
	return "notifications, pushed by the hub that is linked there"
}

var texts = map[sitemap.Capability]string{
	sitemap.ResourceList:        "all resources as they are now",
	sitemap.ChangeList:          "the index of the Change Lists, closed ones and the open one",
	sitemap.ChangeDump:          "the changes of closed lists in packages, with the files",
	sitemap.ResourceDump:        "all resources in packages, with the files",
	sitemap.ResourceListArchive: "former Resource Lists",
	sitemap.ResourceDumpArchive: "former Resource Dumps",
	sitemap.ChangeListArchive:   "closed Change Lists that the index no longer names",
	sitemap.ChangeDumpArchive:   "packages of changes that the Change Dump no longer names",
}

// ChooseSet returns the first steps of a Destination; description is the path of
// the Source Description, rel the relation of links to a Capability List.
func ChooseSet(description, rel string) []string {
	return []string{
		"Choose a set below, or in the Source Description. Its page says how to follow it.",
		"The set pending is for a mirror of the work to do. The set replica has all files of the queue, for a copy to outlive the original.",
		"The Source Description is at " + description + "; payloads and job files lead to their Capability List by a Link header with the relation " + rel + ".",
	}
}

// FollowSet returns the steps of a Destination of a set, with or without a
// Resource Dump, a Change Dump, and archives of Change Lists and their packages.
func FollowSet(d sitemap.Dialect, dumped, packed, archived, archivedPackages bool) []string {
	begin := "Begin with the Resource List and get each resource that it names."
	if dumped {
		begin = "Begin with the Resource List and get each resource that it names, or with the Resource Dump, whose packages have them."
	}
	instant := "datetime"
	if d != sitemap.V11 {
		instant = "lastmod"
	}
	reach, older := "", ""
	if dumped {
		reach = ", as far back as the Resource Dump at least"
	}
	if packed {
		reach += ", and the Change Dump packages with the files"
	}
	if archived {
		older = " The Change List Archive names still older lists."
	}
	if archivedPackages {
		older += " The Change Dump Archive names older packages."
	}
	return []string{
		begin + " Remember the time at of the document (from in version 0.9): all changes up to then are in it.",
		"Then ask for the open Change List again and again and apply, in their order, the changes whose " + instant + " is later than the last you know. Send If-None-Match with the last ETag, and Prefer: wait=60 to be answered when there is something new: 304 is nothing new.",
		"If the open list begins (from) later than that, a list was closed meanwhile: the Change List Index names the lists before it" + reach + ". Closed lists and packages never change." + older,
		"If those begin too late as well, or the answer is 410, what you need is no longer kept: begin anew. The answer 410 says with what, and its time at.",
		"Compare each file with the digest of its entry. One that is gone, or another, has a later change.",
	}
}
