package queuefs

// SlotSize is how many octets of memory a job takes.
const SlotSize = slotSize
