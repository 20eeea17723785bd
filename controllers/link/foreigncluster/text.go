// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"fmt"
	"strings"
)

// maxNamed bounds how many volumes or namespaces a condition names.
const maxNamed = 8

// FirstOf returns the first maxNamed names, separated by commas, and the number of further names.
func FirstOf(names []string) string {
	list := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
