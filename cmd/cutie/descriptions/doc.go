// Package descriptions has the commands about resource descriptions in SOIF: exchanging
// them with servers of RDM, and checking and printing files of them.
package descriptions
