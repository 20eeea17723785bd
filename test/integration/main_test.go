// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestMain(m *testing.M) { framework.Main(m) }
