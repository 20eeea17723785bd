// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"io"
	"strings"
)

// Line prints one line of a table in Markdown.
func Line(out io.Writer, cells ...string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}
