// The scores of hits of the search: Sphinx reads this file by html_search_scorer.
// Sphinx alone sorts pages that have the words of a query anywhere by their titles.  Here pages that
// have more of them in headings come first, then guides, notebooks, the reference, and last pages
// on how dshap is built.
var Scorer = {
  // as in Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  heading: 3, // for each word of the query in a heading of the page
  exact: 8, // where the query is the name of the hit
  folders: { docs: 2, notebooks: 1, api: 0, dshap: -4, workflows: -4, cluster: -4 },

  score: ([page, title, anchor, description, score, file, kind]) => {
    const headings = Scorer.words().filter((word) => Scorer.isInHeadings(word, page));
    const isExact = title.split(".").pop().toLowerCase() === Scorer.query().toLowerCase();
    return (
      (kind === "index" ? Math.min(score, Scorer.title) : score) +
      Scorer.heading * headings.length +
      (isExact ? Scorer.exact : 0) +
      Scorer.folders[Scorer.folder(page)]
    );
  },

  // Pages beside the folders are guides, but for the words of the code
  folder: (page) => {
    if (page.includes("/")) return page.split("/")[0];
    return page === "words" ? "dshap" : "docs";
  },

  query: () => (new URLSearchParams(window.location.search).get("q") || "").trim(),

  // The stems of the words of the query
  words: () => {
    const stemmer = new Stemmer();
    const words = splitQuery(Scorer.query().toLowerCase());
    return [...new Set(words.map((word) => stemmer.stemWord(word)))];
  },

  isInHeadings: (word, page) => {
    const { docnames, titleterms } = Search._index;
    return [titleterms[word] ?? []].flat().includes(docnames.indexOf(page));
  },
};
