// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var chosenGroups = flag.String("groups", "",
	"groups of steps to run, separated by commas, in this order; empty runs all")

// stepGroup is a list of steps. It can run alone, and in any order with other groups.
type stepGroup struct {
	name  string
	steps []step
}

// step is a test that needs running clusters.
type step struct {
	name string
	run  func(*testing.T)
	// from is the state that the clusters are brought to before the step. Empty leaves them as they
	// are.
	from state
	// leaves is the state of the clusters after the step. Empty means from.
	leaves state
	// since is an earlier state, with whose snapshot the step compares the clusters at its end. If
	// this run has no such snapshot, the clusters are brought to that state first. Empty means that
	// the step compares nothing.
	since state
	// long is true for a step that takes about a minute or more. -short omits these steps.
	long bool
}

// groups returns the groups of the selected layout, in the order that changes the state of the
// clusters least often.
func groups() []stepGroup {
	if *layout == "three" {
		return []stepGroup{{"three", []step{{name: "HubAndLeaves", run: hubAndLeaves}}}}
	}
	all := []stepGroup{
		{"install", installSteps},
		{"peering", peeringSteps},
		{"offloading", offloadingSteps},
		{"tenancy", tenancySteps},
		{"services", servicesSteps},
		{"storage", storageSteps},
		{"network", networkSteps},
		{"policies", policySteps},
		{"upgrade", upgradeSteps},
		{"resilience", resilienceSteps},
		{"uninstall", uninstallSteps},
	}
	if *chaosTime > 0 {
		all = slices.Insert(all, len(all)-1, stepGroup{"chaos", chaosSteps})
	}
	if *databases {
		at := slices.IndexFunc(all, func(g stepGroup) bool { return g.name == "network" })
		all = slices.Insert(all, at, stepGroup{"databases", databaseSteps}, stepGroup{"moves", moveSteps})
		all = append(all, stepGroup{"pages", pagesSteps})
	}
	return all
}

var installSteps = []step{
	{name: "TwoReplicasOnAnExternalEtcd", long: true, from: bare, run: twoReplicasOnAnExternalEtcd},
	{name: "InstallsOnBothClusters", from: bare, leaves: installed, run: func(t *testing.T) { reaches(t, installed) }},
	{name: "ClustersFollowThePages", from: installed, run: func(t *testing.T) { runsThePage(t, rome, "playground.md") }},
	{name: "RefusesBadInput", from: installed, run: refusesBadInput},
}

// peeringSteps end with clusters that are not peered.
var peeringSteps = []step{
	{name: "Invitations", from: installed, run: together(
		step{name: "TokenOnce", run: tokenOnce},
		step{name: "InvitationEndsWithItsToken", run: invitationEndsWithItsToken},
		step{name: "CSRForeignIdentityRejected", run: csrForeignIdentityRejected},
		step{name: "CSRExtraOrgRejected", run: csrExtraOrgRejected},
	)},
	{name: "PeersByInvitation", from: installed, leaves: peered, run: func(t *testing.T) { reaches(t, peered) }},
	{name: "KnownIDsRequireABoundInvitation", from: peered, run: knownIDsRequireABoundInvitation},
	{name: "VirtualNodeRepresentsTheProvider", from: peered, run: virtualNodeRepresentsTheProvider},
	{name: "Tables", from: peered, run: tables},
	{name: "PeerCannotWriteUnofferedNamespace", from: peered, run: peerCannotWriteUnofferedNamespace},
	{name: "RefusesPodsBeyondTheQuota", from: peered, run: refusesPodsBeyondTheQuota},
	{name: "OffersExtendedResources", from: peered, run: offersExtendedResources},
	{name: "OffersNodeByNode", from: peered, run: offersNodeByNode},
	{name: "OffersFollowThePages", from: peered, run: offersFollowThePages},
	{name: "PeersBothWays", long: true, from: peered, run: peersBothWays},
	{name: "TokenNeverLogged", from: peered, since: installed, run: tokenNeverLogged},
	{name: "UnpeeringLeavesNothing", from: peered, since: installed, leaves: installed, run: unpeeringLeavesNothing},
	{name: "ProviderPolicyDecides", long: true, from: peered, since: installed, run: providerPolicyDecides},
	{name: "OrphansAreRemovedByTheProvider", long: true, from: peered, since: installed, leaves: installed,
		run: orphansAreRemovedByTheProvider},
}

var offloadingSteps = []step{
	{name: "WhilePeered", from: peered, run: together(
		step{name: "RunsADeploymentOnTheProvider", run: runsADeploymentOnTheProvider},
		step{name: "NamesRemoteNamespacesByStrategy", run: namesRemoteNamespacesByStrategy},
		step{name: "PlacesPodsByStrategy", run: placesPodsByStrategy},
		step{name: "EvictsMisplacedPods", run: evictsMisplacedPods},
		step{name: "NamespacesFollowThePages", run: namespacesFollowThePages},
		step{name: "DoesNotChangeUnmanagedObjects", run: doesNotChangeUnmanagedObjects},
		step{name: "ReflectsPodStatus", run: reflectsPodStatus},
		step{name: "DeletesPodsOnBothClusters", run: deletesPodsOnBothClusters},
		step{name: "DeletedNamespacesLeaveNothing", run: deletedNamespacesLeaveNothing},
		step{name: "JobsRunExactlyOnce", run: jobsRunExactlyOnce},
		step{name: "ReportsHowADeletedPodEnded", run: reportsHowADeletedPodEnded},
		step{name: "GracePeriodsReachTheProvider", run: gracePeriodsReachTheProvider},
		step{name: "PodsGetNoProviderToken", run: podsGetNoProviderToken},
		step{name: "DebugsRemotePods", run: debugsRemotePods},
		step{name: "ResizesRemotePods", run: resizesRemotePods},
		step{name: "PodsSeeTheFieldsOfTheLocalPod", run: podsSeeTheFieldsOfTheLocalPod},
		step{name: "ReflectsWarningEvents", run: reflectsWarningEvents},
		step{name: "Logs", run: logs},
		step{name: "LogsTailZero", run: logsTailZero},
		step{name: "ExecCopiesStdin", run: execCopiesStdin},
		step{name: "ExecExitCode", run: execExitCode},
		step{name: "ExecResize", run: execResize},
		step{name: "Attach", run: attach},
		step{name: "PortForward", run: portForward},
		step{name: "VKAnonymousExecDenied", run: vkAnonymousExecDenied},
		step{name: "VKDelegatesSAR", run: vkDelegatesSAR},
		step{name: "ShadowPodCannotEscapeToNode", run: shadowPodCannotEscapeToNode},
	)},
	{name: "ScalesByUsage", long: true, from: peered, run: scalesByUsage},
	{name: "PatchesOffloadedPods", from: peered, run: patchesOffloadedPods},
	{name: "PodsReachTheConsumersAPIServer", from: peered, run: podsReachTheConsumersAPIServer},
	{name: "DrainsTheVirtualNode", from: peered, run: drainsTheVirtualNode},
	{name: "CordonsTheCluster", from: peered, run: cordonsTheCluster},
	{name: "UnoffloadingMovesPodsToTheConsumer", from: peered, run: unoffloadingMovesPodsToTheConsumer},
}

// tenancySteps run with a peer that the provider does not trust as an owner of both clusters.
var tenancySteps = []step{
	{name: "SelectNoNames", from: peered, run: tenantsSelectNoNames},
	{name: "PodsAreWithinLimits", from: peered, run: tenantsPodsAreWithinLimits},
	{name: "ObjectsAreWithinLimits", from: peered, run: tenantsObjectsAreWithinLimits},
	{name: "StricterTrustRefusesRunningPods", from: peered, run: stricterTrustRefusesRunningPods},
	{name: "TenantsGetNoTokens", from: peered, run: tenantsGetNoTokens},
	{name: "ProvidersReportNoLocalAddresses", from: peered, run: providersReportNoLocalAddresses},
	{name: "TrustFollowsThePage", from: peered, run: trustFollowsThePage},
}

var servicesSteps = []step{
	{name: "WhilePeered", from: peered, run: together(
		step{name: "ReflectsWhatPodsNeed", run: reflectsWhatPodsNeed},
		step{name: "ReflectsByteForByte", run: reflectsByteForByte},
		step{name: "ExportsServices", run: exportsServices},
		step{name: "RunsTheSampleShop", run: runsTheSampleShop},
	)},
	{name: "ReflectsOtherKinds", long: true, from: peered, run: reflectsOtherKinds},
	{name: "EndpointsFollowTheirServices", from: peered, run: endpointsFollowTheirServices},
}

// storageSteps end with a tunnel, which the next group, networkSteps, needs.
var storageSteps = []step{
	{name: "VolumesFollowTheirPods", from: peered, run: volumesFollowTheirPods},
	{name: "RefusesStorageBeyondTheQuota", from: peered, run: refusesStorageBeyondTheQuota},
	{name: "StoredDataBlocksUnpeering", from: peered, run: storedDataBlocksUnpeering},
	{name: "UnoffloadingKeepsData", from: peered, run: unoffloadingKeepsData},
	{name: "MovesAVolume", from: joined, run: overTheTunnel(fabric.movesAVolume)},
}

// databaseSteps and moveSteps are separate from storageSteps, because they need the images of the
// sample databases.
var (
	databaseSteps = []step{
		{name: "MovesVolumesUnderPodSecurity", from: joined, run: overTheTunnel(fabric.movesVolumesUnderPodSecurity)},
		{name: "RunsTheTutorial", from: joined, run: overTheTunnel(fabric.runsTheTutorial)},
		{name: "ReadsExternalStorage", from: joined, run: overTheTunnel(fabric.readsExternalStorage)},
		{name: "EtcdOverBothClusters", from: joined, run: overTheTunnel(fabric.etcdOverBothClusters)},
		{name: "ADatabaseMovesUnderLoad", from: joined, run: overTheTunnel(fabric.aDatabaseMovesUnderLoad)},
		{name: "MovesWithinTheProvider", from: joined, run: overTheTunnel(fabric.movesWithinTheProvider)},
		{name: "BindsADeletedClaimAgain", from: joined, run: overTheTunnel(fabric.bindsADeletedClaimAgain)},
		{name: "RetainsDataOnTheProvider", from: joined, run: overTheTunnel(fabric.retainsDataOnTheProvider)},
		{name: "DrainsTheData", from: joined, run: overTheTunnel(fabric.drainsTheData)},
		{name: "EndsAPeeringWithData", from: joined, run: overTheTunnel(fabric.endsAPeeringWithData)},
	}
	moveSteps = []step{
		{name: "MovesSurviveFaults", from: joined, run: overTheTunnel(fabric.movesSurviveFaults)},
		{name: "EndedPodsDoNotHoldMoves", from: joined, run: overTheTunnel(fabric.endedPodsDoNotHoldMoves)},
		{name: "MovesEndWithTheirNamespace", from: joined, run: overTheTunnel(fabric.movesEndWithTheirNamespace)},
		{name: "MovesSurviveLosses", from: joined, run: overTheTunnel(fabric.movesSurviveLosses)},
		{name: "DeletedWhileLocked", from: joined, run: overTheTunnel(fabric.deletedWhileLocked)},
	}
)

// pagesSteps end with clusters that the product is not installed on.
var pagesSteps = []step{
	{name: "InstallationFollowsThePages", from: installed, leaves: bare, run: installationFollowsThePages},
}

// networkSteps end with clusters that are not peered.
var networkSteps = []step{
	{name: "PodsAndNodes", from: joined, run: overTheTunnel(fabric.podsAndNodes)},
	{name: "Services", from: joined, run: overTheTunnel(fabric.services)},
	{name: "Exports", from: joined, run: overTheTunnel(fabric.exports)},
	{name: "TunnelsFollowThePages", from: joined, run: overTheTunnel(fabric.tunnelsFollowThePages)},
	{name: "MapsNodeAddresses", from: joined, run: overTheTunnel(fabric.mapsNodeAddresses)},
	{name: "MapsNonPodEndpoints", from: joined, run: overTheTunnel(fabric.mapsNonPodEndpoints)},
	{name: "ConsumersAPIServerThroughTunnels", long: true, from: joined, run: consumersAPIServerThroughTunnels},
	{name: "GatewaysFailOver", from: joined, run: overTheTunnel(fabric.gatewaysFailOver)},
	{name: "ReachesGatewayByItsService", long: true, from: joined, run: overTheTunnel(fabric.reachesGatewayByItsService)},
	{name: "TenantsAreIsolated", from: joined, run: overTheTunnel(fabric.tenantsAreIsolated)},
	{name: "ProvidersReachEndpointsOnly", from: joined, run: overTheTunnel(fabric.providersReachEndpointsOnly)},
	{name: "ProvidersReportAddressesOfTheirTunnel", from: joined,
		run: overTheTunnel(fabric.providersReportAddressesOfTheirTunnel)},
	{name: "ShopOverBothClusters", long: true, from: joined, run: overTheTunnel(fabric.shopOverBothClusters)},
	{name: "RecoversFromFaults", long: true, from: joined, run: overTheTunnel(fabric.recoversFromFaults)},
	{name: "LeavesNothingOnTheNodes", from: joined, since: peered, leaves: peered,
		run: func(t *testing.T) { reaches(t, peered) }},
	{name: "PeersInBand", long: true, from: installed, run: peersInBand},
}

// policySteps do not need the product, and do not change the state of the clusters.
var policySteps = []step{
	{name: "RefusesPackets", run: refusesPackets},
}

// upgradeSteps end with clusters that are peered and run this version.
var upgradeSteps = []step{
	{name: "UpgradesAndRollsBack", long: true, from: installed, leaves: peered, run: upgradesAndRollsBack},
}

var resilienceSteps = []step{
	{name: "ProviderNodeFails", long: true, from: peered, run: providerNodeFails},
	{name: "ProviderUnreachableForAMinute", long: true, from: peered, run: providerUnreachableForAMinute},
	{name: "VirtualNodeIsUnreachableForLong", long: true, from: peered, run: virtualNodeIsUnreachableForLong},
	{name: "KilledVirtualKubelet", from: peered, run: killedVirtualKubelet},
	{name: "KilledControllerManager", from: peered, run: killedControllerManager},
	{name: "KilledAPIServer", from: peered, run: killedAPIServer},
	{name: "WritesOnlyHeartbeatsWhenIdle", from: peered, run: writesOnlyHeartbeatsWhenIdle},
	{name: "RestoresTheStore", long: true, from: peered, run: restoresTheStore},
	{name: "NamespaceDeletionResumesAfterOutage", long: true, from: peered, run: namespaceDeletionResumesAfterOutage},
	{name: "TokenNeverLogged", from: peered, since: installed, run: tokenNeverLogged},
}

var chaosSteps = []step{
	{name: "SurvivesChaos", from: peered, run: survivesChaos},
	{name: "WritesOnlyHeartbeatsWhenIdle", from: peered, run: writesOnlyHeartbeatsWhenIdle},
	{name: "TokenNeverLogged", from: peered, since: installed, run: tokenNeverLogged},
}

// uninstallSteps end with clusters without the product.
var uninstallSteps = []step{
	{name: "UninstallIsRefusedWhilePeered", from: peered, run: uninstallIsRefusedWhilePeered},
	{name: "UninstallationLeavesNothing", from: peered, since: bare, leaves: bare, run: uninstallationLeavesNothing},
}

// chosen returns the groups that the flag -groups selects. With -short it omits long steps, and groups
// that have only such steps. It fails for an unknown name, and the error has all names.
func chosen() ([]stepGroup, error) {
	all := groups()
	if testing.Short() {
		for i := range all {
			all[i].steps = slices.DeleteFunc(slices.Clone(all[i].steps), func(s step) bool { return s.long })
		}
		all = slices.DeleteFunc(all, func(g stepGroup) bool { return len(g.steps) == 0 })
	}
	if *chosenGroups == "" {
		return all, nil
	}
	var names []string
	for _, g := range all {
		names = append(names, g.name)
	}
	var some []stepGroup
	for name := range strings.SplitSeq(*chosenGroups, ",") {
		at := slices.Index(names, name)
		if at < 0 {
			return nil, fmt.Errorf("-groups: there is no group %q with these flags; use some of %v", name, names)
		}
		some = append(some, all[at])
	}
	return some, nil
}

// TestFederation runs the selected groups. With -run, a single step can be run, also repeatedly on
// clusters that are kept.
func TestFederation(t *testing.T) {
	for _, group := range must(chosen())(t) {
		reached := true
		t.Run(group.name, func(t *testing.T) {
			for _, step := range group.steps {
				if reached = step.test(t); !reached {
					t.Fatalf("the clusters did not reach the state that %s starts from", step.name)
				}
			}
		})
		if !reached {
			t.Fatal("the tests end; later ones would fail as well")
		}
	}
}

// test brings the clusters to the states that the step requires, and runs it. It returns false if a
// state was not reached. A step that -run excludes requires no state.
func (s step) test(t *testing.T) (reached bool) {
	reached = true
	selected := false
	passed := t.Run(s.name, func(t *testing.T) {
		t.Cleanup(func() { collect(t) })
		selected, reached = true, false
		if s.since != unknown && !s.since.recorded() {
			reaches(t, s.since)
		}
		if s.from != unknown {
			reaches(t, s.from)
		}
		reached = true
		s.run(t)
	})
	switch {
	case !selected:
	case !passed:
		clustersAre = unknown
	case s.leaves != unknown:
		clustersAre = s.leaves
	}
	return reached
}

// together returns a test that runs steps in parallel.
func together(steps ...step) func(*testing.T) {
	return func(t *testing.T) {
		for _, step := range steps {
			t.Run(step.name, func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() { collect(t) })
				step.run(t)
			})
		}
	}
}

// overTheTunnel returns a test that runs a step with the established tunnel between rome and milan.
func overTheTunnel(run func(fabric, *testing.T)) func(*testing.T) {
	return func(t *testing.T) { run(agreed(t), t) }
}
