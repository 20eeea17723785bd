// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// hint is the advice to an administrator for errors with a known cause.
type hint struct {
	cause error
	text  string
}

// withHint returns err with the text of the first hint whose cause err wraps; err itself if there is none.
func withHint(err error, all ...hint) error {
	for _, a := range all {
		if errors.Is(err, a.cause) {
			return fmt.Errorf("%w: %s", err, a.text)
		}
	}
	return err
}

// portInUse returns the hint for a UDP port that another process uses.
func portInUse(port int) hint {
	text := fmt.Sprintf("UDP port %d of this node is in use by the process that ss -lunp shows: free it", port)
	if port != model.OverlayPort {
		text += ", or set another port in the values of the chart"
	}
	return hint{unix.EADDRINUSE, text}
}

// missingIptables returns the hint for a missing iptables program.
func missingIptables() hint {
	return hint{exec.ErrNotFound, "the image of this agent must contain iptables-nft and iptables-legacy"}
}

// linkHints returns the hints for failures to create a link.
func (n *Namespace) linkHints(l model.Link) []hint {
	return []hint{
		{
			unix.EOPNOTSUPP,
			fmt.Sprintf("the kernel of this node does not support this type of link: load its module %s", l.Kind),
		},
		{unix.EEXIST, fmt.Sprintf("the VNI %d is used by %s", l.VNI, n.linksWithVNI(l.VNI))},
	}
}

// linksWithVNI returns the names of the VXLAN links with a VNI, as part of a hint.
func (n *Namespace) linksWithVNI(vni int) string {
	var names []string
	all, err := n.handle.LinkList()
	for _, l := range all {
		if vxlan, ok := l.(*netlink.Vxlan); ok && vxlan.VxlanId == vni {
			names = append(names, l.Attrs().Name)
		}
	}
	if err != nil || len(names) == 0 {
		return "another link"
	}
	return "link " + strings.Join(names, ", ")
}
